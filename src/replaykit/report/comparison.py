"""A comparison of two runs as text and JSON."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from msgspec import Struct

from replaykit.model.diff import Difference, brief
from replaykit.model.text_lines import first_few
from replaykit.report.layout import (
    beside,
    coloured,
    counted,
    has_room_for_two,
    line_width,
    screen_width,
    short,
    table,
    with_hint,
)
from replaykit.report.recorded_and_current import sides
from replaykit.terminal import style
from replaykit.travel.compare_result import (
    Comparison,
    DivergenceKind,
    EntryKind,
    EventEntry,
    FirstDivergence,
    RunEnding,
    StateEntry,
    UsageTotals,
)

_MARKS = {
    EntryKind.SAME: ("=", None),
    EntryKind.CHANGED: ("~", "yellow"),
    EntryKind.INSERTED: ("+", "green"),
    EntryKind.DELETED: ("-", "red"),
    EntryKind.MOVED: (">", "cyan"),
}
_AROUND = 2  # equal events that are shown around a difference
_ALIKE = 6  # differences of one kind in a row that are shown
_LINES = 60
_STEPS = 3  # steps that are named in a row
_CELL = 32
_NARROW_CELL = 8
_PLACES = 3  # differences of one event that are shown
_SIDE_CHARS = 200


def comparison_text(comparison: Comparison, a_name: str, b_name: str, *, whole: bool = False) -> str:
    """Two runs beside each other, the verdict first; `whole` leaves nothing out."""
    first = comparison.first
    if first is None:
        head = f"{style('identical', fg='green', bold=True)}: {counted(len(comparison.entries), 'event')}"
    else:
        head = f"{style('differs', fg='red', bold=True)} {first.where}: {first.text}"
        head = "\n".join([head, *_versions(first, a_name, b_name)])
    blocks = [head]
    if first is not None or whole:
        blocks.append("\n".join(_events(comparison, a_name, b_name, whole)))
    if first is not None:
        blocks.append("\n".join(_states(comparison)))
    if comparison.unknown_states:
        steps = counted(comparison.unknown_states, "step")
        blocks.append(f"The states after {steps} are not stored in both runs, and not compared.")
    blocks.append(_summary(comparison, a_name, b_name))
    text = "\n\n".join(filter(None, blocks))
    if whole:
        return text
    return with_hint(text, "Every event and every difference: --all; an event: replaykit show RUN --event N")


def _versions(first: FirstDivergence, a_name: str, b_name: str) -> Iterator[str]:
    if has_room_for_two() and first.a_text and first.b_text:
        yield from ["", *sides((a_name, b_name), first.a_text, first.b_text), ""]
        yield from _differences(first.differences)
        return
    wide = max(len(a_name), len(b_name))
    if first.a_text or first.b_text:
        yield f"  {style(f'{a_name:<{wide}}', fg='red')}  {first.a_text or '(nothing)'}"
        yield f"  {style(f'{b_name:<{wide}}', fg='green')}  {first.b_text or '(nothing)'}"
    yield from _differences(first.differences)


def _differences(found: tuple[Difference, ...], indent: int = 2) -> Iterator[str]:
    colours = {"changed": "yellow", "added": "green", "removed": "red"}
    for difference in found:
        yield f"{' ' * indent}{style(str(difference), fg=colours.get(difference.kind))}"


def _events(comparison: Comparison, a_name: str, b_name: str, whole: bool) -> Iterator[str]:
    """The aligned events, a line each; long stretches of one kind are left out unless `whole`."""
    if not comparison.entries:
        return
    words = {
        EntryKind.SAME: "= {} same",
        EntryKind.CHANGED: "~ {} changed",
        EntryKind.INSERTED: f"+ {{}} only in {b_name}",
        EntryKind.DELETED: f"- {{}} only in {a_name}",
        EntryKind.MOVED: "> {} moved",
    }
    counts = comparison.counts
    yield "  ".join(_coloured(kind, words[kind].format(f"{counts[kind]:,}")) for kind in words if counts[kind])
    rows = list(_rows(comparison.entries, whole))
    is_cut = not whole and len(rows) > _LINES + 1
    shown = rows[:_LINES] if is_cut else rows
    wide = max(len(str(seq)) for entry in comparison.entries for seq in (entry.a_seq, entry.b_seq) if seq is not None)
    if has_room_for_two():
        pairs = [pair for row in shown for pair in _pairs(row, wide, whole)]
        yield beside((style(a_name, fg="red"), style(b_name, fg="green")), pairs)
    else:
        for row in shown:
            yield from _row_lines(row, wide, whole)
    if is_cut:
        yield f"  … more: --all shows all {len(comparison.entries):,} events"


class _Hidden(Struct, frozen=True):
    """A stretch of events of one kind that are not shown."""

    kind: EntryKind
    count: int

    def __str__(self) -> str:
        return f"  … {self.count:,} {self.kind.value} …"


def _rows(entries: tuple[EventEntry, ...], whole: bool) -> Iterator[EventEntry | _Hidden]:
    """Yield the events that are shown, and where some are not."""
    stretches = [list(stretch) for _, stretch in groupby(entries, key=lambda entry: entry.kind)]
    for number, stretch in enumerate(stretches):
        kind = stretch[0].kind
        head = tail = _AROUND
        if kind is not EntryKind.SAME:
            head = _ALIKE - _AROUND
        elif number == 0:
            head = 0
        if kind is EntryKind.SAME and number + 1 == len(stretches):
            tail = 0
        hidden = len(stretch) - head - tail
        if whole or hidden <= 1:
            head, hidden = len(stretch), 0
        yield from stretch[:head]
        if hidden:
            yield _Hidden(kind, hidden)
            yield from stretch[len(stretch) - tail :]


def _pairs(row: EventEntry | _Hidden, wide: int, whole: bool) -> Iterator[tuple[str, str]]:
    """Yield an event as both runs have it, and below it where it differs."""
    if isinstance(row, _Hidden):
        hidden = _coloured(row.kind, str(row))
        yield ("" if row.kind is EntryKind.INSERTED else hidden, "" if row.kind is EntryKind.DELETED else hidden)
        return
    room = screen_width() // 2 - wide - 6
    old = _side(row.kind, row.a_seq, row.a_text or row.text, wide, room)
    yield old, _side(row.kind, row.b_seq, row.text, wide, room)
    found = row.arguments + row.outcome
    if not whole:
        found = found[:_PLACES]
    for difference in found:
        if row.a_text and difference.path == "$":
            continue  # the texts say it
        yield _value(difference, wide, "removed"), _value(difference, wide, "added")


def _side(kind: EntryKind, seq: int | None, text: str, wide: int, room: int) -> str:
    """Return the event of one run; nothing where it has none."""
    if seq is None:
        return ""
    return _coloured(kind, f"{_MARKS[kind][0]} {seq:>{wide}}  {short(text, room)}")


def _value(difference: Difference, wide: int, kind: str) -> str:
    """Return the value that one run has at the place of a difference: the old one, or the new one for `added`."""
    margin = " " * (wide + 4)
    if difference.kind not in (kind, "changed"):
        return f"{margin}{style(difference.path, dim=True)}"
    value, colour = difference.old, "red"
    if kind == "added":
        value, colour = difference.new, "green"
    return f"{margin}{style(difference.path, dim=True)}  {style(brief(value, _SIDE_CHARS), fg=colour)}"


def _row_lines(row: EventEntry | _Hidden, wide: int, whole: bool) -> Iterator[str]:
    if isinstance(row, _Hidden):
        yield _coloured(row.kind, str(row))
    else:
        yield from _entry_lines(row, wide, whole)


def _entry_lines(entry: EventEntry, wide: int, whole: bool) -> Iterator[str]:
    """`~ 5 5 search_docs(query='x')  $.result[0]`: mark, both numbers, the event, where it differs."""
    mark, _ = _MARKS[entry.kind]
    found = entry.arguments + entry.outcome
    head = f"  {mark} {_number(entry.a_seq):>{wide}} {_number(entry.b_seq):>{wide}}  "
    room = max(screen_width() - len(head), 20)
    if whole or not found:
        yield _coloured(entry.kind, head + short(entry.text, room))
        yield from _differences(found, len(head))
        return
    places = ", ".join(difference.path for difference in found[:_PLACES])
    if len(found) > _PLACES:
        places += " …"
    text = short(entry.text, max(room - len(places) - 2, 20))
    yield _coloured(entry.kind, f"{head}{text}  {places}")


def _number(seq: int | None) -> str:
    return "" if seq is None else str(seq)


def _coloured(kind: EntryKind, text: str) -> str:
    colour = _MARKS[kind][1]
    if colour:
        return style(text, fg=colour)
    return style(text, dim=True)


def _states(comparison: Comparison) -> Iterator[str]:
    """Yield where the states differ, without repeating the first divergence."""
    if not comparison.states:
        return
    entry, *later = comparison.states
    is_first = comparison.first is not None and comparison.first.kind is DivergenceKind.STATE
    after = _after(entry)
    steps = [step for step in dict.fromkeys(map(_after, later)) if step != after]
    named = first_few(steps, _STEPS)
    if not is_first:
        others = f" (and after {named})" if steps else ""
        yield f"state after {after}{others}"
        yield from _differences(entry.differences)
    elif steps:
        yield f"state differs after {named} as well"


def _after(entry: StateEntry) -> str:
    seq = entry.a_seq if entry.b_seq is None else entry.b_seq
    return entry.b_step or entry.a_step or f"event {seq}"


def _summary(comparison: Comparison, a_name: str, b_name: str) -> str:
    """Return a table of how both runs ended and what they used."""
    a, b = _ending(comparison.outcome.a), _ending(comparison.outcome.b)
    cell = max(min(_CELL, (line_width() - 40) // 2), _NARROW_CELL)
    rows = []
    for name, old, new in zip(("status", "output", "error"), a, b, strict=True):
        if not old and not new:
            continue
        texts = [short(old, cell), short(new, cell)]
        if name == "status":
            texts = [coloured(old), coloured(new)]
        rows.append([name, *texts, "" if old == new else "≠"])
    usage = comparison.usage
    more = _usage(usage.difference, plus="+")
    for (name, old), new in zip(_usage(usage.a).items(), _usage(usage.b).values(), strict=True):
        if old or new:
            rows.append([name, old, new, more[name] if more[name].strip("+-$ 0.s") else ""])
    lines = table(["", _label(a_name), _label(b_name), "difference"], rows)
    changed = [f"{tool.name} {tool.a} → {tool.b}" for tool in comparison.tools.counts if tool.a != tool.b]
    if changed:
        return f"{lines}\n\ntools: {', '.join(changed)}"
    return lines


def _ending(ending: RunEnding) -> tuple[str, str, str]:
    output = "" if ending.output is None else brief(ending.output, 200)
    return ending.status.value, output, ending.error or ""


def _label(name: str) -> str:
    """A name as the head of a column; of a long path the end tells more."""
    if len(name) <= _CELL:
        return name
    return "…" + name[1 - _CELL :]


def _usage(totals: UsageTotals, *, plus: str = "") -> dict[str, str]:
    """Return what a run used; the text is empty where the log does not say. `plus` is the sign of what is more."""
    texts = dict.fromkeys(("model calls", "tool calls", "tokens", "cost", "time"), "")
    if totals.llm_calls:
        texts["model calls"] = f"{totals.llm_calls:{plus},}"
    if totals.tool_calls:
        texts["tool calls"] = f"{totals.tool_calls:{plus},}"
    if totals.tokens is not None:
        texts["tokens"] = f"{totals.tokens:{plus},}"
    if totals.cost_usd is not None:
        sign = "-" if totals.cost_usd < 0 else plus
        texts["cost"] = f"{sign}${abs(totals.cost_usd):.4f}"
    if totals.duration_s is not None:
        texts["time"] = f"{totals.duration_s:{plus}.2f} s"
    return texts
