"""Pages: what the stepper shows in full, as lines of any length and number."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.checks.conversation import request_messages
from replaykit.debugger.lines import ScreenLine, pretty
from replaykit.debugger.navigation import DebuggerStep, StepList
from replaykit.debugger.screen import state_change
from replaykit.model.diff import Difference, brief, differences
from replaykit.model.events import AnyEvent, Call, Decision, ErrorEvent, ErrorInfo, LlmCall, Message, Note, State
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, Raw, encode
from replaykit.report.layout import width_of
from replaykit.report.model_calls import conversation_facts
from replaykit.report.runs import duration_text

_DIFFERENCES = 1000  # nobody reads more
_ONE_ROW = 60
_SPOKEN_COLUMN = 13
_LOOKS = {"added": "green", "removed": "red", "changed": "yellow"}

HELP = """
  n  space  → ↓    the next step
  b  p  ← ↑        the previous step
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
  space b  ↑ ↓     the next or the previous screen, a row up or down
  0 home  $ end    to its beginning, to its end
  n p  → ←         the same of the next step, of the previous step
  /  N  q          find a text on it; find it again; back to the step
"""


def help_page() -> Iterator[ScreenLine]:
    return map(ScreenLine, HELP.strip("\n").split("\n"))


def state_page(step_list: StepList, at: int, state: Json) -> Iterator[ScreenLine]:
    """Yield the state after a step; `state` is None if the run kept none by then."""
    note = _whose_state(step_list, at)
    if note is not None:
        yield note
    if state is not None:
        yield from map(ScreenLine, pretty(encode(state)))


def diff_page(step_list: StepList, at: int, before: Json, after: Json) -> Iterator[ScreenLine]:
    """Yield the changes of a step to the state; `before` is None if there was no earlier state."""
    note = _whose_state(step_list, at)
    if note is not None:
        yield note
    if note is not None and not step_list.stops[at].loses_state:
        return
    start = {} if before is None and isinstance(after, dict) else before
    changes = differences(start, after, limit=_DIFFERENCES + 1)
    if not changes:
        yield ScreenLine("the state is as it was before the step", "dim")
    for difference in changes[:_DIFFERENCES]:
        yield from _difference(difference)
    if len(changes) > _DIFFERENCES:
        yield ScreenLine(f"… more than {_DIFFERENCES:,} differences", "dim")


def _whose_state(step_list: StepList, at: int) -> ScreenLine | None:
    """Return a remark about a step without a kept state of its own."""
    name = step_list.stops[at].name or "this run"
    if step_list.stops[at].keeps_state:
        return None
    if step_list.stops[at].loses_state:
        return ScreenLine(f"the state after {name} was not stored: the agent ran again to get there", "yellow")
    for stop in reversed(step_list.stops[:at]):
        if stop.keeps_state or stop.loses_state:
            return ScreenLine(f"{name} has no state of its own: it is as {stop.name} left it", "yellow")
    return ScreenLine(f"{name} has no state, and there was none before", "yellow")


def _difference(difference: Difference) -> Iterator[ScreenLine]:
    """Yield a difference on one row if both values are short, or each value in full."""
    look = _LOOKS.get(difference.kind, "")
    if max(len(brief(value, _ONE_ROW + 1)) for value in (difference.old, difference.new)) <= _ONE_ROW:
        yield ScreenLine(str(difference), look, 10)
        return
    yield ScreenLine(f"{difference.kind:<9} {difference.path}", look, 10)
    if difference.kind != "added":
        yield from _marked("- ", difference.old, "red")
    if difference.kind != "removed":
        yield from _marked("+ ", difference.new, "green")


def _marked(mark: str, value: Json, look: str) -> Iterator[ScreenLine]:
    for text in pretty(encode(value)):
        yield ScreenLine(f"  {mark}{text}", look, 4)


def calls_page(run: TraceRun, stop: DebuggerStep) -> Iterator[ScreenLine]:
    """Yield everything that happened in a step, in full."""
    for number, event in enumerate(stop.events):
        if number:
            yield ScreenLine("")
        yield from _event(event, run.started_at)
    if not stop.events:
        yield ScreenLine("nothing happened", "dim")


def _event(event: AnyEvent, started_at: float) -> Iterator[ScreenLine]:
    moment = f"{event.at - started_at:+.3f} s" if event.at and started_at else ""
    place = f"event {event.seq}  {moment}  {event.path or '/'}"
    if isinstance(event, Call):
        inside = "" if event.parent is None else f"  inside event {event.parent}"
        yield ScreenLine(f"{event.kind} {event.name}", "bold")
        took = duration_text(event.duration_s)
        yield ScreenLine(f"  {place}{inside}{'  took ' + took if took else ''}", "dim")
        yield from _call(event)
    elif isinstance(event, ErrorEvent):
        yield ScreenLine("error", "bold")
        yield ScreenLine(f"  {place}", "dim")
        yield from _error(event.error)
    elif isinstance(event, Message | Decision | Note):
        if isinstance(event, Message):
            name = event.role
        elif isinstance(event, Decision):
            name = "decision"
        else:
            name = event.name
        yield ScreenLine(name, "bold")
        yield ScreenLine(f"  {place}", "dim")
        yield from _value("", event.content_json)
    elif isinstance(event, State):
        yield ScreenLine(f"state {state_change(event)}", "bold")
        yield ScreenLine(f"  {place}", "dim")


def _conversation(call: LlmCall) -> Iterator[ScreenLine]:
    """Yield the conversation of a model call in readable form; its JSON comes below."""
    for label, text in conversation_facts(call):
        first, *more = text.split("\n")
        if text:
            yield ScreenLine(f"  {label:<10} {first}", hang=_SPOKEN_COLUMN)
            yield from (ScreenLine(" " * _SPOKEN_COLUMN + line) for line in more)


def _call(call: Call) -> Iterator[ScreenLine]:
    if isinstance(call, LlmCall) and request_messages(call):
        yield from _conversation(call)
    yield from _value("arguments", call.arguments_json)
    if call.result_json:
        yield from _value("result", call.result_json)
    if call.items_json is not None:
        yield from _value("items", Raw(b"[" + b",".join(map(bytes, call.items_json)) + b"]"))
        if not call.complete:
            yield ScreenLine("  the stream was left before its end", "yellow")
    if call.error is not None:
        yield ScreenLine("  error", "cyan")
        yield from _error(call.error)
    if not call.answered:
        yield ScreenLine("  no answer", "yellow")
    if isinstance(call, LlmCall) and call.usage is not None:
        yield ScreenLine(f"  tokens: {call.usage.input_tokens} in, {call.usage.output_tokens} out", "dim")


def _value(label: str, json: Raw) -> Iterator[ScreenLine]:
    if label:
        yield ScreenLine(f"  {label}", "cyan")
    for text in pretty(json):
        yield ScreenLine(f"    {text}")


def _error(error: ErrorInfo) -> Iterator[ScreenLine]:
    for text in (error.traceback or str(error)).rstrip().split("\n"):
        yield ScreenLine(f"    {text}", "red")


def list_page(step_list: StepList, at: int) -> Iterator[ScreenLine]:
    """Yield one line for each step; the current one is marked."""
    if not step_list.count:
        yield ScreenLine("no steps: the run made no calls", "yellow")
        return
    number = len(str(step_list.count))
    wide = min(30, max(width_of(stop.name) for stop in step_list.stops))
    states = list(map(_state_word, step_list.stops))
    column = max(map(len, states))
    for place, stop in enumerate(step_list.stops):
        calls, error = [], ""
        for event in stop.events:
            if isinstance(event, Call):
                calls.append(event.name)
            if isinstance(event, Call | ErrorEvent) and event.error:
                error = f"  {event.error}"
        name = stop.name + " " * (wide - width_of(stop.name))
        what = ", ".join(calls[:20]) + error
        mark, look = " ", ""
        if place == at:
            mark, look = ">", "bold"
        if error:
            look = "red"
        yield ScreenLine(
            f"{mark} {place + 1:>{number}}  {name}  {states[place]:<{column}}  {what[:400]}", look, number + 4
        )


def _state_word(step: DebuggerStep) -> str:
    if step.keeps_state:
        return "state"
    if step.loses_state:
        return "not stored"
    return ""
