"""Grounding: find the figures of an answer that have no source, with the nearest figure of a source."""

from __future__ import annotations

import difflib
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Literal, TypeAlias

from msgspec import Struct

from replaykit.checks.explanations import Explanations
from replaykit.checks.figure_dates import as_date, is_same_day
from replaykit.checks.figures import Figure, all_figures, is_bare_answer, plain_key, stated_figures, url_key
from replaykit.checks.grounding_sources import SortedNumbers, Sources, SourceView, first_statement
from replaykit.checks.reading import any_glob, has_output, last_seq, output_text, says_something
from replaykit.checks.rule import Rule, Seen, register
from replaykit.model.nesting import decode_json
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import first_few
from replaykit.model.values import Json

_SHOWN = 3
_MAX_IDS = 2_000
_MAX_EXPLAINED = 60  # how many figures without a source are examined: a single unexplained one decides
_NEAR_DAYS = 14
_NEAR = 0.75  # a number of a source is reported as near if the ratio of both is at least this


class Ungrounded(Struct, frozen=True, kw_only=True):
    """A figure without a source."""

    figure: Figure
    nearest: str = ""
    """The nearest figure of a source, and its place; empty if none is near."""
    seq: int | None = None
    """The model call that first stated it."""

    @property
    def text(self) -> str:
        """The figure and the nearest one in a few words."""
        near = f" (nearest: {self.nearest})" if self.nearest else ""
        return f"{self.figure.text!r}{near}"


@register("output.grounded")
class OutputGrounded(Rule, frozen=True):
    """True: every figure of the output has a source in the run. False: at least one comes from nowhere.

    Figures are numbers, amounts, percentages, dates, ids, URLs, e-mail addresses and quoted names. An answer that is a
    name and nothing else is one, and so is each line that a patch removes or keeps. Sources are the input, the system
    prompt, the messages of users and the answers of tools; the model's own words are none, nor is their echo in what a
    tool answers. Formats do not matter (`1,234.50` and `1234.5`, `$49.99` and `4999` cents, `12.5 %` and `0.125`,
    `March 12` and `2024-03-12`), nor does rounding.

    `derive` allows figures that follow by arithmetic: a `sum` of up to three numbers, a `difference` (also of days, up
    to two weeks), `product`, `ratio` or `percent` of two, a `count` of items. `anything` gives the benefit of the
    doubt, and is what `scaffold` writes: two steps of arithmetic, units, totals and averages of lists, dates some days,
    weeks or months on, ids and links made of known parts. A run with very many numbers explains any number.

    Small counting numbers, years, list numbering, code and times of day need no source. A finding names each
    figure from nowhere with the nearest figure of a source, and points at the model call that stated it first. Without
    an output neither holds.
    """

    plain = "grounded"
    notes = {
        "grounded": "true, or false; a plain value sets this",
        "derive": "`all`, a list of `sum`, `difference`, `product`, `ratio`, `percent` and `count`, or `anything`",
        "ignore": "figures that need no source, as the output writes them; `*` matches anything",
    }
    examples = (
        "output.grounded: true",
        "output.grounded: {derive: [sum, percent], ignore: [1-800-*]}",
        "output.grounded: {grounded: true, derive: all}",
    )
    grounded: bool = True
    derive: Literal["all", "anything"] | list[Derivation] = []
    ignore: list[str] = []

    def seen_in(self, run: TraceRun) -> Seen:
        expected = "every figure with a source" if self.grounded else "a figure without a source"
        if not has_output(run):
            return Seen(False, "No final output", expected, "no output", last_seq(run))
        figures = [figure for figure in output_figures(run) if not any_glob(self.ignore, figure.text)]
        missing = self._missing(run, figures)
        if not missing:
            text = (
                f"All {len(figures)} figures of the output have a source" if figures else "The output states no figure"
            )
            return Seen(self.grounded and says_something(run), text, expected, text.lower(), last_seq(run))
        shown = first_few([figure.text for figure in missing], _SHOWN)
        return Seen(
            holds=not self.grounded,
            text=f"Output states {shown}, which nothing in the run supports",
            expected=expected,
            actual=f"no source for {shown}",
            seq=missing[0].seq,
        )

    def _missing(self, run: TraceRun, figures: list[Figure]) -> list[Ungrounded]:
        if self.derive == "anything":
            return unexplained(run, figures)
        return ungrounded(run, figures, ALL if self.derive == "all" else tuple(self.derive))


def output_figures(run: TraceRun) -> list[Figure]:
    """Return the figures of a run's output that need a source."""
    return stated_figures(_stated_text(run))


def ungrounded(run: TraceRun, figures: list[Figure], derive: tuple[Derivation, ...]) -> list[Ungrounded]:
    """Return the figures that are in no source of the run and cannot be derived from one."""
    sources = Sources(run)
    found: dict[str, Ungrounded] = {}
    for figure in figures:
        if figure.text in found:
            continue
        view = sources.for_figure(figure)
        if not _has_source(figure, view, derive):
            seq = first_statement(run, figure)
            if seq is None:
                seq = last_seq(run)
            found[figure.text] = Ungrounded(figure=figure, nearest=_nearest(figure, view), seq=seq)
    return list(found.values())


def unexplained(run: TraceRun, figures: list[Figure]) -> list[Ungrounded]:
    """Return the figures without any source: no short calculation, unit or calendar leads to them."""
    missing = ungrounded(run, figures, ())[:_MAX_EXPLAINED]
    if not is_bare_answer(_stated_text(run)):
        # In a sentence, a quoted name may be a label, a translation or common knowledge.
        missing = [unsourced for unsourced in missing if unsourced.figure.kind != "name"]
    # Two passes: figures that the first one explains are results that others may be computed from.
    missing = _inexplicable(run, missing, ())
    if not missing:
        return []
    unknown = {unsourced.figure.text for unsourced in missing}
    results: list[float] = []
    for figure in all_figures(_stated_text(run)):
        if figure.text not in unknown:
            results += map(abs, figure.values)
    return _inexplicable(run, missing, results)


def _inexplicable(run: TraceRun, missing: list[Ungrounded], stated: Sequence[float]) -> list[Ungrounded]:
    sources = Sources(run)
    explanations: dict[SourceView, Explanations] = {}
    found = []
    for unsourced in missing:
        view = sources.for_figure(unsourced.figure)
        if view not in explanations:
            explanations[view] = Explanations(view, stated)
        if not explanations[view].explain(unsourced.figure):
            found.append(unsourced)
    return found


def _stated_text(run: TraceRun) -> str:
    """Return the output as prose; of JSON only the values, since keys and quotes state nothing."""
    value: Json = run.output
    if isinstance(value, str):
        text = value.strip()
        if text[:1] not in ("{", "["):
            return value
        try:
            value = decode_json(text)
        except ValueError:
            return output_text(run)
    return "\n".join(_leaves(value))


def _leaves(value: Json) -> Iterator[str]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            stack += reversed(item.values())
        elif isinstance(item, list | tuple):
            stack += reversed(item)
        elif item is not None and not isinstance(item, bool):
            yield str(item)


def _has_source(figure: Figure, sources: SourceView, derive: tuple[Derivation, ...]) -> bool:
    if sources.holds_literally(figure.core):  # the most frequent case, without reading any source
        return True
    if figure.kind == "url":
        key = url_key(figure.text)
        return key in sources.urls or sources.holds_text(plain_key(key))
    if figure.kind == "date":
        if any(is_same_day(day, known) for day in figure.days for known, _where in sources.days):
            return True
        return "difference" in derive and _is_near_date(figure, sources)
    if figure.kind == "number":
        return _number_has_source(figure, sources) or is_derived(figure, sources, derive)
    if sources.holds_text(figure.key):
        return True
    # The words of a name may be apart: "Jiabao, Wen".
    return figure.kind == "name" and all(map(sources.holds_text, map(plain_key, figure.text.split())))


def _is_near_date(figure: Figure, sources: SourceView) -> bool:
    """Return whether a date is some days from one in a source: the day after, a week later."""
    known = filter(None, (as_date(day) for day, _where in sources.days))
    pairs = product(filter(None, map(as_date, figure.days)), known)
    return any(abs((day - other).days) <= _NEAR_DAYS for day, other in pairs)


def _number_has_source(figure: Figure, sources: SourceView) -> bool:
    if sources.holds_digits("".join(filter(str.isdigit, figure.text)).lstrip("0")):
        return True
    for value, tolerance in zip(figure.values, figure.tolerances, strict=True):
        target = abs(value)
        if (
            _stands_near(target, tolerance, sources.numbers)
            or (figure.is_percent and _stands_near(target / 100, tolerance / 100, sources.numbers))
            or (figure.is_money and _stands_near(target * 100, tolerance * 100, sources.numbers))
        ):
            return True
    return False


def _stands_near(target: float, tolerance: float, numbers: list[tuple[float, str]]) -> bool:
    """Return whether a source holds a number that rounds or truncates to the target."""
    reach = max(tolerance * 2, 1.0)
    for value, _where in numbers[bisect_left(numbers, (target - reach, "")) :]:
        if value > target + reach:
            return False
        distance = abs(value - target)
        is_cut = 0 <= value - target < 2 * tolerance
        is_whole = tolerance == 0 and value != int(value) and distance < 1
        if distance <= max(tolerance, 1e-9 * target) or is_cut or is_whole:
            return True
    return False


def _nearest(figure: Figure, sources: SourceView) -> str:
    if figure.kind == "number":
        return _nearest_number(figure, sources.numbers)
    if figure.kind == "date":
        year, month, day = figure.days[0]
        for known, where in sources.days:
            if known[1:] == (month, day) or known[:2] == (year, month):
                return where
        return ""
    candidates: dict[str, str] = {}
    for source in sources.sources:
        for candidate in source.figures[:_MAX_IDS]:
            if candidate.kind == figure.kind:
                candidates[candidate.text] = source.where
    close = difflib.get_close_matches(figure.text, list(candidates)[:_MAX_IDS], n=1, cutoff=0.7)
    if close:
        return f"{close[0]}, {candidates[close[0]]}"
    return ""


def _nearest_number(figure: Figure, numbers: list[tuple[float, str]]) -> str:
    target = abs(figure.values[0])
    index = bisect_left(numbers, (target, ""))
    around = numbers[max(0, index - 1) : index + 1]
    close = [(abs(value - target), where) for value, where in around if _NEAR * target <= value <= target / _NEAR]
    if close:
        return min(close)[1]
    return ""


Derivation: TypeAlias = Literal["sum", "difference", "product", "ratio", "percent", "count"]
ALL: tuple[Derivation, ...] = ("sum", "difference", "product", "ratio", "percent", "count")
MAX_NUMBERS = 400
"""Arithmetic is limited to this many numbers; with more, almost any figure follows from some two."""
_MAX_TRIPLES = 120
_COUNTS = range(2, 13)


def is_derived(figure: Figure, sources: SourceView, allowed: Sequence[Derivation]) -> bool:
    """Return whether one of the allowed operations on numbers of the sources gives the figure."""
    if not allowed:
        return False
    numbers = SortedNumbers([value for value, _where in sources.numbers if value][-MAX_NUMBERS:])
    for value, tolerance in zip(figure.values, figure.tolerances, strict=True):
        target = abs(value)
        margin = max(min(tolerance, 0.005 * target), 0.006 if target != int(target) else 1e-6)
        if "count" in allowed and target == int(target) and target <= sources.longest_list:
            return True
        if any(_OPERATIONS[name](target, margin, numbers) for name in allowed if name in _OPERATIONS):
            return True
    return False


def _is_sum(target: float, margin: float, numbers: SortedNumbers) -> bool:
    smaller = [number for number in numbers.values if number <= target + margin]
    if _has_pair(target, margin, smaller, numbers):
        return True
    few = smaller[-_MAX_TRIPLES:]
    return any(_has_pair(target - number, margin, few, numbers) for number in few if number < target)


def _has_pair(target: float, margin: float, addends: Sequence[float], numbers: SortedNumbers) -> bool:
    return any(numbers.has(target - number, margin) for number in addends if number < target)


def _is_difference(target: float, margin: float, numbers: SortedNumbers) -> bool:
    return any(numbers.has(number + target, margin) for number in numbers.values)


def _is_product(target: float, margin: float, numbers: SortedNumbers) -> bool:
    if any(numbers.has(target / number, margin / number) for number in numbers.values if number > 1):
        return True
    # Some of each: three passengers at a fare, or at the sum or difference of two.
    for count in _COUNTS:
        part, reach = target / count, margin / count
        if (
            numbers.has(part, reach)
            or _has_pair(part, reach, numbers.values, numbers)
            or _is_difference(part, reach, numbers)
        ):
            return True
    return False


def _is_ratio(target: float, margin: float, numbers: SortedNumbers) -> bool:
    return target > 0 and any(numbers.has(number / target, margin * number / target**2) for number in numbers.values)


def _is_percent(target: float, margin: float, numbers: SortedNumbers) -> bool:
    """Return whether this is a share in percent, a change in percent, or a percentage of a number."""
    if target <= 0:
        return False
    change = 1 + target / 100
    for number in numbers.values:
        if numbers.has(number * change, margin * number / 100):
            return True
        if number <= 100 and numbers.has(100 * target / number, 100 * margin / number):
            return True
    return _is_ratio(target / 100, margin / 100, numbers)


_OPERATIONS: dict[str, Callable[[float, float, SortedNumbers], bool]] = {
    "sum": _is_sum,
    "difference": _is_difference,
    "product": _is_product,
    "ratio": _is_ratio,
    "percent": _is_percent,
}
