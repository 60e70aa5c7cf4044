"""Assertions: one engine for failure signatures and desired behaviour.

Each kind of assertion is a `Rule` in the registry `ASSERTIONS`; `rule.KIND_MODULES` names the modules of the built-in
kinds. Other packages add kinds through the entry point group `replaykit.assertions`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import starmap
from typing import TYPE_CHECKING, TypeAlias

from msgspec import Struct

from replaykit.checks.rule import ASSERTIONS, BadAssertion, Context, Rule, Runs
from replaykit.errors import nearest
from replaykit.model.json_positions import DocumentPath
from replaykit.model.result import Deviation, Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject

if TYPE_CHECKING:
    from replaykit.checks.questions import Answers
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from replaykit.model.run import decode_run, encode_run
from replaykit.model.values import decode, encode
from replaykit.redaction.placeholders import blurred, canonical, holds_placeholder

if TYPE_CHECKING:
    from replaykit.redaction.project import ProjectRedactor


class Assertion(Struct, frozen=True):
    """One assertion of a case: its kind, its value in the file, and the rule parsed from them."""

    kind: str
    value: Json
    rule: Rule
    id: str = ""
    """The id of the contract's invariant that it belongs to, if any."""
    severity: str = ""
    where: str = ""
    """The file and line of that invariant."""

    def check(
        self,
        run: TraceRun,
        side: Side,
        deviations: Sequence[Deviation] | None = None,
        *,
        runs: Runs | None = None,
        answers: Answers | None = None,
    ) -> Finding:
        """Return this assertion's finding; raise `CannotTell` if something that it needs is missing.

        `deviations` are those of the replay that produced the run; None if none did. `runs` supplies more runs of the
        same candidate, and `answers` the answers of judges.
        """
        return self.find(run, Context(side, None if deviations is None else tuple(deviations), runs, answers))

    def find(self, run: TraceRun, context: Context) -> Finding:
        """Return this assertion's finding about the run, in its context."""
        value, run = redact_alike(self.value, run)
        if value is self.value:
            rule = self.rule
        else:
            rule = ASSERTIONS.get(self.kind).parse(value)
        observation = rule.check(run, context)
        return Finding(
            kind=self.kind,
            holds=observation.holds,
            text=observation.text,
            expected=observation.expected,
            actual=observation.actual,
            seq=observation.seq,
            run=observation.run,
            id=self.id,
            severity=self.severity,
            where=self.where,
        )


Assertions: TypeAlias = tuple[Assertion, ...]


def parse_assertion(kind: str, value: Json) -> Assertion:
    """Parse `kind: value` of a case; raise `BadAssertion` if it is invalid."""
    if kind not in ASSERTIONS:
        message = f"unknown assertion {kind!r}; {nearest(str(kind), ASSERTIONS)}"
        raise BadAssertion(message, hint="List all of them: replaykit help assertions")
    return Assertion(kind, value, ASSERTIONS.get(kind).parse(value))


def parse_assertions(values: Iterable[JsonObject]) -> Assertions:
    """Parse a list of assertions that has been validated."""
    assertions: list[Assertion] = []
    for value in values:
        assertions += starmap(parse_assertion, value.items())
    return tuple(assertions)


def parse_inner(value: Json, where: str, path: DocumentPath = ()) -> Assertion:
    """Parse an assertion nested at this path of another one."""
    if not isinstance(value, dict) or len(value) != 1:
        raise BadAssertion(f"expected one assertion inside `{where}`, as in `{{tool.called: refund}}`", path)
    ((kind, inner),) = value.items()
    try:
        return parse_assertion(kind, inner)
    except BadAssertion as error:
        raise BadAssertion(error.message, (*path, str(kind), *error.path), hint=error.hint) from None


def concerns_one_run(assertion: Assertion) -> bool:
    """Return whether an assertion, or a part of it, is about the first run alone."""
    if assertion.rule.is_repeated:
        return False
    inside = assertion.rule.inside
    return not inside or any(map(concerns_one_run, inside))


def find_judged(assertions: Iterable[Assertion]) -> Iterator[tuple[Assertion, bool]]:
    """Yield every assertion that needs a judge, and whether it is about several runs."""
    for assertion in assertions:
        if assertion.rule.is_judged:
            yield assertion, False
        for inner, several in find_judged(assertion.rule.inside):
            yield inner, several or assertion.rule.is_repeated


def redact_alike(value: Json, run: TraceRun) -> tuple[Json, TraceRun]:
    """Return an assertion's value and the run in comparable form; unchanged if nothing is redacted."""
    text = encode(value)
    if holds_placeholder(text):
        return _redacted(value, text, run)
    if len(text) < _SHORTEST:
        return value, run
    redacted = _redactor().raw(text)
    if redacted is text or not holds_placeholder(encode_run(run)):
        return value, run
    return _redacted(decode(redacted), redacted, run)


_SHORTEST = 6  # no redacted value is shorter, and most assertions are a number or a word


def runs_alike(recorded: TraceRun, now: TraceRun) -> tuple[TraceRun, TraceRun]:
    """Return a recorded run and another one in comparable form; unchanged if nothing is redacted."""
    text = encode_run(recorded)
    if not holds_placeholder(text):
        return recorded, now
    spelled, shown = _as_recorded(now, with_forms=False)
    return decode_run(spelled(text)), shown


def _redacted(value: Json, text: bytes, run: TraceRun) -> tuple[Json, TraceRun]:
    spelled, shown = _as_recorded(run, with_forms=_TAG not in text)
    return decode(spelled(text)), shown


_TAG = b"<"  # the start of placeholders without a form, as in cases of older versions


def _as_recorded(run: TraceRun, *, with_forms: bool) -> tuple[Callable[[bytes], bytes], TraceRun]:
    """Return the run as it would have been recorded here, and the function that normalises what it is compared with.

    Without `with_forms`, placeholders of all versions are normalised. If the run has clear values and the project has
    no key, only kinds can be compared.
    """
    from replaykit.redaction.events import Door  # noqa: PLC0415 (few cases hold anything redacted)

    redactor = _redactor()
    redactor.has_forms = with_forms
    before = encode_run(run)
    after = encode_run(Door(redactor).run(run))
    spelled: Callable[[bytes], bytes] = bytes if with_forms else canonical
    if after != before and not redactor.has_key:
        spelled = blurred
    return spelled, decode_run(spelled(after))


def _redactor() -> ProjectRedactor:
    from replaykit.redaction.project import project_redactor  # noqa: PLC0415 (few cases hold anything redacted)

    return project_redactor(foreign=True)
