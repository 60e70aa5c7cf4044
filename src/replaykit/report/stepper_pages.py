"""Pages: what the stepper shows in full, as lines of any length and number."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.model.diff import Difference, brief, differences
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, State
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, Raw, encode
from replaykit.report.panel import width_of
from replaykit.report.stepper import Stop, Walk
from replaykit.report.stepper_screen import state_change
from replaykit.report.stepper_text import Line, pretty

_DIFFERENCES = 1000  # more of them nobody reads
_ONE_ROW = 60
_LOOKS = {"added": "green", "removed": "red", "changed": "yellow"}

HELP = """
  n  space  → ↓    the next step
  b  p  ← ↑        the step before
  0 home  $ end    the first step, the last step
  g                to a step, by its name or number
  s                the state after the step
  d                what the step changed in the state
  t                everything in the step, in full
  /  N             find a text in calls, results and messages; find it again
  l                all steps
  c                compare a fork with its parent
  e                edit the state, an answer or arguments, and fork from here
  k                keep this run as another take of a case
  u                return from a fork to the run it was made from
  r  ?  q          read the run again; these keys; quit (also ctrl-c, ctrl-d)

On a page:
  space b  ↑ ↓     a screen on or back, a row up or down
  0 home  $ end    to its beginning, to its end
  n p  → ←         the same of the next step, of the step before
  /  N  q          find a text on it; find it again; back to the step
"""


def help_page() -> Iterator[Line]:
    """All keys."""
    return (Line(text) for text in HELP.strip("\n").split("\n"))


def state_page(walk: Walk, at: int, state: Json) -> Iterator[Line]:
    """The state after a step; None when the run has kept none by then."""
    note = _whose_state(walk, at)
    if note is not None:
        yield note
    if state is not None:
        yield from (Line(text) for text in pretty(encode(state)))


def diff_page(walk: Walk, at: int, before: Json, after: Json) -> Iterator[Line]:
    """What a step changed in the state; `before` is None when there was none."""
    note = _whose_state(walk, at)
    if note is not None:
        yield note
    if note is not None and not walk.stops[at].loses_state:
        return
    found = differences({} if before is None and isinstance(after, dict) else before, after, limit=_DIFFERENCES + 1)
    if not found:
        yield Line("the state is as it was before the step", "dim")
    for difference in found[:_DIFFERENCES]:
        yield from _difference(difference)
    if len(found) > _DIFFERENCES:
        yield Line(f"… more than {_DIFFERENCES:,} differences", "dim")


def _whose_state(walk: Walk, at: int) -> Line | None:
    """A word about a step that kept no state itself."""
    name = walk.stops[at].name or "this run"
    if walk.stops[at].keeps_state:
        return None
    if walk.stops[at].loses_state:
        return Line(f"the state after {name} was not kept: the agent has got there again", "yellow")
    for stop in reversed(walk.stops[:at]):
        if stop.keeps_state or stop.loses_state:
            return Line(f"{name} has no state of its own: it is as {stop.name} left it", "yellow")
    return Line(f"{name} has no state, and there was none before", "yellow")


def _difference(difference: Difference) -> Iterator[Line]:
    """A difference on one row where both values are short, else each value in full."""
    look = _LOOKS.get(difference.kind, "")
    if max(len(brief(value, _ONE_ROW + 1)) for value in (difference.old, difference.new)) <= _ONE_ROW:
        yield Line(str(difference), look, 10)
        return
    yield Line(f"{difference.kind:<9} {difference.path}", look, 10)
    if difference.kind != "added":
        yield from _marked("- ", difference.old, "red")
    if difference.kind != "removed":
        yield from _marked("+ ", difference.new, "green")


def _marked(mark: str, value: Json, look: str) -> Iterator[Line]:
    return (Line(f"  {mark}{text}", look, 4) for text in pretty(encode(value)))


def calls_page(run: TraceRun, stop: Stop) -> Iterator[Line]:
    """Everything that happened in a step, in full."""
    for number, event in enumerate(stop.events):
        if number:
            yield Line("")
        yield from _event(event, run.started_at)
    if not stop.events:
        yield Line("nothing happened", "dim")


def _event(event: AnyEvent, started_at: float) -> Iterator[Line]:
    moment = f"{event.at - started_at:+.3f} s" if event.at and started_at else ""
    place = f"event {event.seq}  {moment}  {event.path or '/'}"
    if isinstance(event, Call):
        inside = f"  inside event {event.parent}" if event.parent is not None else ""
        yield Line(f"{event.kind} {event.name}", "bold")
        yield Line(f"  {place}{inside}  took {event.duration_s:.6f} s", "dim")
        yield from _call(event)
    elif isinstance(event, ErrorEvent):
        yield Line("error", "bold")
        yield Line(f"  {place}", "dim")
        yield from _error(event.error)
    elif isinstance(event, Message | Decision | Note):
        name = event.role if isinstance(event, Message) else "decision" if isinstance(event, Decision) else event.name
        yield Line(name, "bold")
        yield Line(f"  {place}", "dim")
        yield from _value("", event.content_json)
    elif isinstance(event, State):
        yield Line(f"state {state_change(event)}", "bold")
        yield Line(f"  {place}", "dim")


def _call(call: Call) -> Iterator[Line]:
    yield from _value("arguments", call.arguments_json)
    if call.result_json:
        yield from _value("result", call.result_json)
    if call.items_json is not None:
        yield from _value("items", Raw(b"[" + b",".join(map(bytes, call.items_json)) + b"]"))
        if not call.complete:
            yield Line("  the stream was left before its end", "yellow")
    if call.error is not None:
        yield Line("  error", "cyan")
        yield from _error(call.error)
    if not call.answered:
        yield Line("  no answer", "yellow")
    if isinstance(call, LlmCall) and call.usage is not None:
        yield Line(f"  tokens: {call.usage.input_tokens} in, {call.usage.output_tokens} out", "dim")


def _value(label: str, json: Raw) -> Iterator[Line]:
    if label:
        yield Line(f"  {label}", "cyan")
    yield from (Line(f"    {text}") for text in pretty(json))


def _error(error: ErrorInfo) -> Iterator[Line]:
    lines = (error.traceback or str(error)).rstrip().split("\n")
    yield from (Line(f"    {text}", "red") for text in lines)


def list_page(walk: Walk, at: int) -> Iterator[Line]:
    """All steps, a line each; the one that one stands at is marked."""
    if not walk.count:
        yield Line("no steps: the run made no calls", "yellow")
        return
    number = len(str(walk.count))
    wide = min(30, max(width_of(stop.name) for stop in walk.stops))
    states = ["state" if stop.keeps_state else "not kept" if stop.loses_state else "" for stop in walk.stops]
    column = max(map(len, states))
    for place, stop in enumerate(walk.stops):
        calls = [event for event in stop.events if isinstance(event, Call)]
        errors = [event.error for event in stop.events if isinstance(event, Call | ErrorEvent) and event.error]
        name = stop.name + " " * (wide - width_of(stop.name))
        what = ", ".join(call.name for call in calls[:20]) + (f"  {errors[-1]}" if errors else "")
        mark = ">" if place == at else " "
        look = "red" if errors else "bold" if place == at else ""
        yield Line(f"{mark} {place + 1:>{number}}  {name}  {states[place]:<{column}}  {what[:400]}", look, number + 4)
