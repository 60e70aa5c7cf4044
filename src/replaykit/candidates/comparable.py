"""Reduce runs to what a golden trace compares: the agent's own calls and states, and how it ended.

Left out are events inside a call (they do not happen when it is served), messages, decisions and notes, anything that
is not asserted, and volatile members named in `ignore`. States are folded change by change as they are logged, so a
large and growing state is never read as a whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

import msgspec
import orjson
from msgspec.structs import replace

from replaykit.cases.golden import Aspect
from replaykit.handlers.replay.tape import is_refused
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, Call, Change, ErrorInfo, State
from replaykit.model.jsonpath import JsonPath, Pick, remove_paths
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import ABSENT, Raw, read_members

UNANSWERED = ErrorInfo(type="not recorded")
"""The outcome of a call that the recording does not contain."""


def comparable(run: TraceRun, asserts: Collection[Aspect], ignore: Sequence[JsonPath]) -> TraceRun:
    """Return the run without anything that is allowed to differ."""
    events = tuple(_own_events(run, asserts, ignore))
    status, output_json, error = RunStatus.SUCCESS, ABSENT, None
    if Aspect.OUTCOME in asserts:
        status = run.status
        output_json, error = _ending(run, ignore)
    return replace(run, events=events, status=status, output_json=output_json, error=error)


def by_cause(run: TraceRun) -> TraceRun:
    """Group the events of a run by task and thread, because the order in which these take turns is arbitrary."""
    lanes = [_lane(event) for event in run.events]
    if len(set(lanes)) < 2:
        return run
    events = list(run.events)
    if len({lane for lane, event in zip(lanes, events, strict=True) if isinstance(event, State)}) > 1:
        events = [*_apart(events, lanes)]
    order = sorted(range(len(events)), key=lanes.__getitem__)
    return replace(run, events=tuple(events[place] for place in order))


def _own_events(run: TraceRun, asserts: Collection[Aspect], ignore: Sequence[JsonPath]) -> Iterator[AnyEvent]:
    calls = {call.seq for call in run.calls}
    states = _ComparedStates(ignore)
    for event in run.events:
        own = event.parent not in calls
        if isinstance(event, State) and Aspect.STATES in asserts:
            if own:
                yield states.masked_state(event)
            else:
                states.passed(event)
        elif isinstance(event, Call) and own and Aspect.CALLS in asserts:
            yield _request(event, ignore)


def _lane(event: AnyEvent) -> str:
    """Return the task or thread of an event: its path up to the last part that was started."""
    head, mark, tail = event.path.rpartition("/~")
    if mark:
        return f"{head}{mark}{tail.partition('/')[0]}"
    return ""


def _apart(events: list[AnyEvent], lanes: list[str]) -> Iterator[AnyEvent]:
    """Yield the events with each state rewritten as a change from the previous state of the same task or thread."""
    fold, folds = StateFold(), defaultdict[str, StateFold](StateFold)
    for event, lane in zip(events, lanes, strict=True):
        if isinstance(event, State) and event.is_kept:
            fold.apply(event)
            whole, change = folds[lane].advance(orjson.loads(fold.text))
            yield replace(event, state_json=whole, change=change)
        else:
            yield event


def _request(call: Call, ignore: Sequence[JsonPath]) -> AnyEvent:
    if ignore:
        arguments = remove_paths(orjson.loads(bytes(call.arguments_json)), ignore, tool=call.name)
        call = replace(call, arguments_json=Raw(orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)))
    if is_refused(call):
        call = replace(call, error=UNANSWERED)
    return call  # type: ignore[return-value]


def _ending(run: TraceRun, ignore: Sequence[JsonPath]) -> tuple[Raw, ErrorInfo | None]:
    """Return output and error without ignored paths.

    A path starts at the output, or at both: `$.output.id`, `$.error.message`.
    """
    output, error = None, None
    if run.output_json:
        output = orjson.loads(bytes(run.output_json))
    if run.error is not None:
        error = {"type": run.error.type, "message": run.error.message}
    if ignore:
        both = remove_paths({"output": output, "error": error}, ignore) or {}
        output, error = remove_paths(both.get("output"), ignore), both.get("error")
    output_json = ABSENT if output is None else Raw(orjson.dumps(output))
    if error is None:
        return output_json, None
    return output_json, ErrorInfo(type=error.get("type", ""), message=error.get("message", ""))


class _ComparedStates:
    """The states of one run in order, without ignored members."""

    def __init__(self, ignore: Sequence[JsonPath]) -> None:
        self._paths = [path for path in ignore if path.tool is None]
        self._fold = StateFold()
        self._whole = any(not path.steps for path in self._paths)  # `$` ignores the whole state
        self._gap = False  # a state was skipped, so the next one cannot be a change

    def passed(self, event: State) -> None:
        """Apply a state that is not compared."""
        self._fold.apply(event)
        self._gap = self._gap or event.is_kept

    def masked_state(self, event: State) -> State:
        """Return a state in the form in which it is compared."""
        self._fold.apply(event)
        if not event.is_kept or (not self._paths and not self._gap):
            return event
        # The change of a state that is not an object names no member that a path could take.
        is_whole = self._gap or self._whole or not self._fold.is_object
        change = None if is_whole else self._change(event.change)
        self._gap = False
        text = ABSENT if change is not None else Raw(self._text())
        return replace(event, state_json=text, change=change)

    def _change(self, change: Change | None) -> Change | None:
        """Return the change without ignored members; None if only a complete state can express it."""
        if change is None or any(map(self._reaches, change.cut)) or any(map(self._counts_items, change.add)):
            return None
        return Change(
            put=self._without(change.put),
            add={key: items for key, items in self._without(change.add).items() if bytes(items) != b"[]"},
            cut=change.cut,
            drop=tuple(key for key in change.drop if not self._removes(key)),
        )

    def _text(self) -> bytes:
        """Return the complete state.

        Members that no path reaches keep their exact bytes, because later changes cut into them.
        """
        text = self._fold.text
        if not self._paths:
            return text
        try:
            members = read_members(text)
        except msgspec.ValidationError:
            members = None
        if members is None or self._whole:
            return orjson.dumps(remove_paths(orjson.loads(text), self._paths))
        return msgspec.json.encode(self._without(members))

    def _without(self, parts: dict[str, Raw]) -> dict[str, Raw]:
        members = {}
        for key, text in parts.items():
            if not self._reaches(key):
                members[key] = text
            elif not self._removes(key):
                members[key] = Raw(orjson.dumps(remove_paths({key: orjson.loads(bytes(text))}, self._paths)[key]))
        return members

    def _reaches(self, key: str) -> bool:
        """Return whether a path may refer to this member or to something inside it."""
        return any(path.steps[0].pick is Pick.DEEP or path.steps[0].takes(key) for path in self._paths)

    def _removes(self, key: str) -> bool:
        return any(len(path.steps) == 1 and path.steps[0].takes(key) for path in self._paths)

    def _counts_items(self, key: str) -> bool:
        """Return whether a path selects items of this member by index, which a change does not contain."""
        two = [path.steps[:2] for path in self._paths if len(path.steps) > 1]
        return any(first.takes(key) and second.pick is Pick.ITEM for first, second in two)
