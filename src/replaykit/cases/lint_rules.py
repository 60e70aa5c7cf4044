"""Lint rules: mistakes in a case that loads, one small function each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case import EVERY_TOOL, ReplayCase
from replaykit.cases.case_shape import ModelMode
from replaykit.cases.contradictions import MAX_COMPARED, contradictions, means_the_same, tools_named
from replaykit.cases.proof import RECORDED_RUN, Standing, prove_hint, read_proof, standing_of
from replaykit.cases.requests import requests_of
from replaykit.cases.takes import TAKES, check_take, read_takes
from replaykit.checks.assertions import Assertions
from replaykit.checks.custom import REGISTER_HINT, unregistered_in, unregistered_text
from replaykit.documents.shape import Flaw, Flaws, FlawSeverity
from replaykit.errors import ReplayKitError, UsageError, nearest
from replaykit.formats.core.labels import ExpectedCall, labels_of
from replaykit.formats.core.replayability import capture_advice
from replaykit.model.events import AnyEvent, Call, LlmCall, Note, ToolCall
from replaykit.model.json_positions import DocumentPath
from replaykit.model.jsonpath import parse_path, values_at
from replaykit.model.matching import OnMiss, ToolErrors, ToolMode
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.tool_errors import is_switchable, tool_errors_in
from replaykit.model.unrecorded import SHOWN, all_unrecorded
from replaykit.model.unreplayable import MUTATED, UNBUILT, types_compared, types_returned


class Fixture(Struct, frozen=True):
    """A frozen call, its file, and its index in the file's `calls`."""

    file: Path
    index: int
    call: Call


class Subject(Struct, frozen=True, kw_only=True):
    """A case, with as much as could be read of the files it refers to."""

    case: ReplayCase
    fixtures: tuple[Fixture, ...] = ()
    run: TraceRun | None = None

    @property
    def traced_models(self) -> list[tuple[Fixture, LlmCall]]:
        """The answered model calls that come from a trace, without recorded bytes."""
        traced = []
        for fixture in self.fixtures:
            call = fixture.call
            if isinstance(call, LlmCall) and call.wire is None and call.answered:
                traced.append((fixture, call))
        return traced

    @property
    def tools_seen(self) -> set[str]:
        """The tools in the trace and the fixtures, and those that a label of the run expects."""
        calls: list[Call | ExpectedCall] = [*self.calls]
        if self.run is not None:
            calls += self.run.calls
            for label in labels_of(self.run):
                calls += label.expected_calls or ()
        return {call.name for call in calls if isinstance(call, ToolCall | ExpectedCall)}

    @property
    def calls(self) -> list[Call]:
        return [fixture.call for fixture in self.fixtures]

    @property
    def events(self) -> Sequence[AnyEvent]:
        """The events of the run that the case was made from."""
        return self.run.events if self.run else ()

    def is_recorded(self, kind: str, name: str) -> bool:
        """True if the scenario answers such calls from fixtures."""
        if kind == "tool_call":
            return self.case.scenario.tool_mode(name) is ToolMode.RECORDED
        return kind != "llm_call" or self.case.scenario.models is ModelMode.RECORDED


def _no_assertions(subject: Subject) -> Flaws:
    case = subject.case
    if not case.observed and not case.desired:
        hint = "Add assertions under observed and desired."
        yield Flaw((), "no-assertions", "no assertion: such a case can never pass", hint)
    elif not case.observed:
        hint = "Describe the failure under observed; to keep a good run: replaykit golden RUN"
        yield _warning((), "no-observed", "no failure signature: this case can never be `fixed`", hint)
    elif not case.desired:
        hint = "Add what a fix must show under desired."
        yield _warning((), "no-desired", "nothing is desired: any other failure would count as a fix", hint)


def _contradictions(subject: Subject) -> Flaws:
    for side, assertions in _sides(subject.case):
        for first, second, reason in contradictions(assertions, side):
            message = f"{side}[{first}] and {side}[{second}] cannot both hold: {reason}"
            yield Flaw((side, second), "contradiction", message, "Remove one of them.")


def _repeated(subject: Subject) -> Flaws:
    for side, assertions in _sides(subject.case):
        for index, assertion in enumerate(assertions):
            if assertion in assertions[:index]:
                message = f"{side}[{index}] appears twice: {assertion.kind}"
                yield _warning((side, index), "repeated-assertion", message, "Remove one of them.")


def _same_on_both_sides(subject: Subject) -> Flaws:
    (_, observed), (_, desired) = _sides(subject.case)
    is_same_failure = all(any(map(partial(means_the_same, seen), desired)) for seen in observed)
    for index, wish in enumerate(desired):
        if not any(map(partial(means_the_same, wish), observed)):
            continue
        message = f"desired[{index}] is also observed ({wish.kind}): "
        if is_same_failure:
            severity, message = FlawSeverity.ERROR, f"{message}a run that is as desired would reproduce the failure"
        else:
            severity, message = FlawSeverity.WARNING, f"{message}it says nothing about whether the failure is gone"
        hint = "A fix must differ from the failure: change one of them."
        yield Flaw(("desired", index), "same-on-both-sides", message, hint, severity)


def _unknown_tools(subject: Subject) -> Flaws:
    known = subject.tools_seen
    for path, name in _tools_named(subject.case) if known else ():
        if name not in known:
            message = f"the tool {name!r} is neither in the trace nor in the fixtures; {nearest(name[:80], known)}"
            yield _warning(path, "unknown-tool", message, "Check its name.")


def _unregistered_checks(subject: Subject) -> Flaws:
    """Warn about unregistered checks: a test may register them before a replay, a command line never does."""
    for side, assertions in _sides(subject.case):
        for index, name in unregistered_in(assertions):
            yield _warning((side, index), "unknown-check", unregistered_text(name), REGISTER_HINT)


def _id_is_directory(subject: Subject) -> Flaws:
    name = subject.case.directory.resolve().name
    if subject.case.id != name:
        message = f"the id is {subject.case.id!r}, the directory {name!r}"
        yield _warning(("id",), "id-not-directory", message, "Rename one of them.")


def _unused_match_keys(subject: Subject) -> Flaws:
    match = subject.case.scenario.match
    for key, used_by in (("live", OnMiss.LIVE), ("fault", OnMiss.FAULT)):
        if getattr(match, key) and match.on_miss is not used_by:
            message = f"{key} has no effect while on_miss is {match.on_miss}"
            yield _warning(("scenario", "match", key), "unused-key", message, f"Set on_miss: {used_by}.")


def _live_requests(subject: Subject) -> Flaws:
    """Warn about live requests: the user must allow each of them to run the case."""
    for request in requests_of(subject.case.scenario):
        hint = f"To run it, pass {request.flag()}."
        if request.is_any_host:
            hint = f"Name each host. To run it, pass {request.flag()}."
        message = f"the case asks to {request.text}: without consent it is not run"
        yield _warning(request.path, "asks-for-live", message, hint)


def _unused_ignored_paths(subject: Subject) -> Flaws:
    """Warn about paths that match nothing in any frozen call; `_unknown_tools` reports unknown tools in them."""
    for index, text in enumerate(subject.case.scenario.match.ignore):
        path = parse_path(text)
        calls = [call for call in subject.calls if path.tool in (None, call.name)]
        if calls and not any(values_at(call.arguments, path) for call in calls):
            message = f"ignoring {text} has no effect: no recorded call has it in its arguments"
            yield _warning(("scenario", "match", "ignore", index), "unused-key", message, "Check how it is spelled.")


def _missing_fixtures(subject: Subject) -> Flaws:
    """Warn about calls of the trace that need a missing fixture."""
    reported = {(call.kind, call.name) for call in subject.calls}
    for call in subject.run.calls if subject.run else ():
        kind, name = call.kind, call.name
        is_top_level = isinstance(call, ToolCall | LlmCall) and call.parent is None
        if is_top_level and (kind, name) not in reported and subject.is_recorded(kind, name):
            reported.add((kind, name))
            message = f"{name!r} was called in the trace, but no fixture answers it"
            yield _warning(("scenario",), "missing-fixture", message, "Scaffold the case again.")


def _noted_values(subject: Subject) -> Flaws:
    """Warn about noted values that a replay cannot rebuild or repeat, unless a fixture shows the same."""
    shown = {call.name for call in subject.calls if types_returned(call)}
    for event in subject.events:
        if not isinstance(event, Note) or event.name not in (UNBUILT, MUTATED) or not isinstance(event.content, dict):
            continue
        note = event.content
        tool = str(note.get("tool"))
        if event.name == MUTATED:
            message = f"the tool {tool!r} changed its arguments or its surroundings, which a replay cannot repeat"
            hint = "Return the change from the tool, and record it again."
            yield _warning(("scenario",), "changed-arguments", message, hint)
        elif note.get("what") in ("returned", "raised") and tool not in shown:
            message = f"the tool {tool!r} {note['what']} what a replay cannot rebuild: it is inconclusive"
            hint = "Define the class at the top of a module, or return plain data, and record it again."
            yield _warning(("scenario",), "unbuilt-value", message, hint)


def _assumed_tool_errors(subject: Subject) -> Flaws:
    """Warn about failed calls known only by a text, until a real agent was seen to fail in this case as it did then."""
    tools = Counter(call.name for call in filter(is_switchable, subject.calls))
    if not tools or _is_proven_by_agent(subject.case):
        return
    modes = dict(subject.case.scenario.tool_errors)
    in_fixtures = tool_errors_in(subject.calls)
    for tool, count in tools.items():
        mode = modes.get(tool, modes.get(EVERY_TOOL, in_fixtures[tool]))
        other = ToolErrors.RETURNED if mode is ToolErrors.RAISED else ToolErrors.RAISED
        calls = "a failed call" if count == 1 else f"{count} failed calls"
        message = f"the trace shows only the text of {calls} of {tool!r}; a replay assumes that it was {mode}"
        hint = f"If the tool {_ENDINGS[other]}, set scenario.tool_errors: {{{tool}: {other}}}."
        yield _warning(("scenario", "tool_errors"), "assumed-tool-errors", message, hint)


_ENDINGS = {ToolErrors.RETURNED: "returns that text", ToolErrors.RAISED: "raises an exception"}


def _is_proven_by_agent(case: ReplayCase) -> bool:
    if standing_of(case)[0] is not Standing.RED:
        return False
    red = read_proof(case).red
    return red is not None and red.candidate != RECORDED_RUN


def _unused_tool_errors(subject: Subject) -> Flaws:
    """Warn about settings for tools none of whose recorded calls can end in either way."""
    for tool, mode in subject.case.scenario.tool_errors:
        named = [call for call in subject.calls if tool in (EVERY_TOOL, call.name) and isinstance(call, ToolCall)]
        if not named or any(map(is_switchable, named)):
            continue
        message = f"tool_errors has no effect on {tool!r}: no recorded call has both a result and an error"
        hint = "Add the other one to the failed call in its fixture, or remove the key."
        if mode is ToolErrors.RETURNED and any(call.error is not None for call in named):
            hint = "Add the text that the tool returned as the result of the failed call in its fixture."
        path = ("scenario", "tool_errors") if tool == EVERY_TOOL else ("scenario", "tool_errors", tool)
        yield _warning(path, "unused-key", message, hint)


def _not_recorded(subject: Subject) -> Flaws:
    """Warn about things that the program did unrecorded."""
    for unrecorded in all_unrecorded(subject.events)[:SHOWN]:
        hint = "Do it in a tool (`@rk.tool`), whose calls are recorded, and record it again."
        yield _warning(("scenario",), "not-recorded", unrecorded.text, hint)


def proof_flaws(case: ReplayCase) -> Flaws:
    """Warn if nobody has seen the case fail in its current form."""
    standing, text = standing_of(case)
    hint = prove_hint(case)
    if standing is Standing.UNKNOWN:
        yield Flaw((), "bad-proof", text, hint)
    elif standing is not Standing.RED:
        yield _warning((), _CODES[standing], text, hint)


def _proof(subject: Subject) -> Flaws:
    # A case without signatures cannot reproduce anything, which `_no_assertions` reports.
    if subject.case.observed:
        return proof_flaws(subject.case)
    return iter(())


def _unused_takes(subject: Subject) -> Flaws:
    """Warn about takes that the case neither starts with nor was proven green on."""
    case = subject.case
    try:
        takes, green = read_takes(case), read_proof(case).green
    except ReplayKitError:
        return  # reported as unreadable elsewhere
    used = {case.scenario.take} | ({green.take} if green is not None else set())
    for take in takes:
        if take.name not in used:
            message = f"the take {take.name!r} is not the one that the last proof was green on"
            hint = f"Delete {TAKES}/{take.name}, or prove the case with the candidate it was made for."
            yield _warning((), "unused-take", message, hint)


def _missing_take(subject: Subject) -> Flaws:
    name = subject.case.scenario.take
    try:
        check_take(subject.case, name)
    except UsageError as error:
        message = f"scenario.take: {error.message}"
        yield Flaw(("scenario", "take"), "missing-take", message, "Name a take of the case, or remove the key.")


_CODES = {
    Standing.NEVER_RED: "never-red",
    Standing.STALE: "stale-proof",
    Standing.NOT_REPRODUCED: "not-reproduced",
}


CASE_RULES: tuple[Callable[[Subject], Iterator[Flaw]], ...] = (
    _no_assertions,
    _missing_take,
    _unused_takes,
    _contradictions,
    _repeated,
    _same_on_both_sides,
    _unknown_tools,
    _unregistered_checks,
    _id_is_directory,
    _unused_match_keys,
    _live_requests,
    _unused_ignored_paths,
    _missing_fixtures,
    _noted_values,
    _assumed_tool_errors,
    _unused_tool_errors,
    _not_recorded,
    _proof,
)
"""The checks of the case file; the path of a flaw leads into it."""


def _unreachable(subject: Subject) -> Iterator[tuple[Fixture, Flaw]]:
    seen = set()
    for fixture in subject.fixtures:
        kind, name = fixture.call.kind, fixture.call.name
        if (kind, name) not in seen and not subject.is_recorded(kind, name):
            seen.add((kind, name))
            scenario = subject.case.scenario
            mode = scenario.models if kind == "llm_call" else scenario.tool_mode(name)
            message = f"never served: the scenario has {name!r} {mode}"
            yield fixture, _warning((), "unreachable-fixture", message, "Remove the file, or set it to recorded.")


def _unanswered(subject: Subject) -> Iterator[tuple[Fixture, Flaw]]:
    for fixture in subject.fixtures:
        if not fixture.call.answered:
            path = ("calls", fixture.index)
            message = f"call {fixture.call.seq} has no outcome, so it can never be served"
            yield fixture, _warning(path, "unanswered-fixture", message, "Add a result or an error.")


def _unservable_models(subject: Subject) -> Iterator[tuple[Fixture, Flaw]]:
    """Warn about traced model calls that a replay cannot serve."""
    if subject.case.scenario.models is not ModelMode.RECORDED or not subject.traced_models:
        return
    from replaykit.wire.conversation import ConversationReader  # noqa: PLC0415 (few cases are made of foreign traces)
    from replaykit.wire.traced_calls import outcome_of  # noqa: PLC0415

    reader = ConversationReader()
    hint = capture_advice(subject.case.source.format or "")
    for fixture, call in subject.traced_models:
        conversation = reader.read(bytes(call.request_json))
        problem = outcome_of(call).problem
        if conversation is None or not conversation.is_known:
            problem = "the trace does not contain everything the model was asked"
        if problem:
            message = f"call {call.seq} cannot be served: {problem}"
            yield fixture, _warning(("calls", fixture.index), "unservable-model", message, hint)


def _repeated_calls(subject: Subject) -> Iterator[tuple[Fixture, Flaw]]:
    counts = Counter(call.seq for call in subject.calls)
    for fixture in subject.fixtures:
        times = counts[fixture.call.seq]
        if times > 1:
            path = ("calls", fixture.index, "call")
            message = f"call {fixture.call.seq} appears {times} times"
            yield fixture, Flaw(path, "duplicate-call", message, "Give every call of the case its own number.")


def _unbuilt(subject: Subject) -> Iterator[tuple[Fixture, Flaw]]:
    """Warn about values that cannot be rebuilt or compared, once for each tool."""
    ignored = list(map(parse_path, subject.case.scenario.match.ignore))
    reported = set()
    for fixture in subject.fixtures:
        call, path = fixture.call, ("calls", fixture.index)
        if call.name in reported or not subject.is_recorded(call.kind, call.name):
            continue
        returned, compared = types_returned(call), types_compared(call, ignored)
        if returned:
            text = f"{call.name!r} returns a {returned[0]}, which a replay cannot rebuild: it is inconclusive"
            hint = "Return plain data, a dataclass or a pydantic model from the tool, and record it again."
        elif compared:
            text = f"{call.name!r} is given a {compared[0]}, which a replay cannot compare: it is inconclusive"
            hint = "Name the argument in scenario.match.ignore, or pass plain data."
        else:
            continue
        reported.add(call.name)
        yield fixture, _warning(path, "unbuilt-value", text, hint)


FIXTURE_RULES: tuple[Callable[[Subject], Iterator[tuple[Fixture, Flaw]]], ...] = (
    _unreachable,
    _unanswered,
    _unservable_models,
    _repeated_calls,
    _unbuilt,
)
"""The checks of the fixtures; the path of a flaw leads into the fixture's file."""


def _warning(path: DocumentPath, code: str, message: str, hint: str) -> Flaw:
    return Flaw(path, code, message, hint, FlawSeverity.WARNING)


def _sides(case: ReplayCase) -> tuple[tuple[Side, Assertions], tuple[Side, Assertions]]:
    """Return both sides, as far as they are compared with each other."""
    return (Side.OBSERVED, case.observed[:MAX_COMPARED]), (Side.DESIRED, case.desired[:MAX_COMPARED])


def _tools_named(case: ReplayCase) -> Iterator[tuple[DocumentPath, str]]:
    for side, assertions in _sides(case):
        for index, assertion in enumerate(assertions):
            for name in dict.fromkeys(tools_named(assertion)):
                yield (side, index), name
    for key, modes in (("tools", case.scenario.tools), ("tool_errors", case.scenario.tool_errors)):
        for name, _mode in modes:
            if name != EVERY_TOOL:
                yield ("scenario", key, name), name
    for index, path in enumerate(case.scenario.match.ignore):
        tool = parse_path(path).tool
        if tool is not None:
            yield ("scenario", "match", "ignore", index), tool
