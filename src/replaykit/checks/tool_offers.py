"""Assertions about tool calls and what the model was offered: unknown tools, wrong arguments, dropped plans."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from msgspec import Meta

from replaykit.checks.argument_flaws import argument_flaw
from replaykit.checks.call_selection import glob
from replaykit.checks.compare import same
from replaykit.checks.conversation import (
    TOOL_ROLES,
    RequestReader,
    answer_text,
    offered_tools,
    request_messages,
    requested_tools,
)
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import last_seq, output_text, says_something
from replaykit.checks.rule import ASSERTIONS, Context, Rule, Seen
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json
from replaykit.redaction.lazy_patterns import lazy

_ANY_TOOL = f"{TOOL_NOTE}; a plain text is this"
_USES = (
    r"us(?:e|es|ed|ing)|call(?:s|ed|ing)?|invok(?:e|es|ed|ing)|ask(?:s|ed|ing)?|quer(?:y|ies|ied|ying)|send(?:s|ing)?|sent"
    r"|run(?:s|ning)?|ran|leverag\w+|employ\w*|consult\w*|utili[sz]\w+|request\w*|delegat\w+|through|via|with|prompt\w*"
)
_PLANS_LOOKUP = lazy(
    r"\b(?:us(?:e|ing)|perform|conduct|run|do) (?:an?|the|our) (?:\w+ ){0,2}(?:search|lookup|query|browser"
    r"|database|api)\b[^.!?\n]{0,60}"
    r"|\b(?:search|browse|query) (?:for|the|on|through|online|google|wikipedia)\b[^.!?\n]{0,60}"
    r"|\b(?:look(?:ing)? up|retrieve|fetch|locate|consult|visit|find)\b[^.!?\n]{0,80}?"
    r"\b(?:web ?pages?|pages?|websites?|sources?|articles?|papers?|records?|documents?|database|wikipedia"
    r"|online|video|entry|entries)\b",
    re.IGNORECASE,
)
_INTRODUCED = lazy(
    r"^[ \t]*(?:[-*•][ \t]*|def[ \t]+)[`'\"]?([a-z][a-z0-9]*(?:_[a-z0-9]+)+)[`'\"]?[ \t]*(?::[ \t]+\w|\()", re.MULTILINE
)
_SPEAKS_OF_TOOLS = lazy(r"\b(?:tools?|functions?|team members?|agents?)\b", re.IGNORECASE)
_IDENTIFIER = lazy(r"[A-Za-z]\w*(?:[_-]\w+)+|[a-z]+(?:[A-Z][a-z0-9]+)+")
_ANSWERING = lazy(r"(?:^|_)(?:final|answer|submit|finish|done|complete|respond|reply)(?:_|$)", re.IGNORECASE)
_INSTRUCTING = frozenset({"system", "developer"})


@ASSERTIONS.register("tool.not_offered")
class ToolNotOffered(Rule, frozen=True, kw_only=True):
    """The model asked for a tool that it was not offered: a name that it made up.

    Only model calls whose request lists tools count; where none does, it does not hold.
    """

    plain = "tool"
    notes = {"tool": _ANY_TOOL}
    examples = ('tool.not_offered: "*"', "tool.not_offered: refund_order")
    tool: str

    def check(self, run: TraceRun, context: Context) -> Seen:
        found = next((call for call in unoffered_calls(run) if glob(self.tool, call[1])), None)
        expected = f"a call of {self.tool!r} that was not offered"
        if found is None:
            text = "Every tool that was asked for was offered"
            return Seen(False, text, expected, text.lower(), last_seq(run))
        call, name, offered = found
        listed = ", ".join(sorted(offered)[:8])
        return Seen(
            True, f"The model asked for {name!r}, which it was not offered", expected, f"offered: {listed}", call.seq
        )


@ASSERTIONS.register("tool.invalid_arguments")
class ToolInvalidArguments(Rule, frozen=True, kw_only=True):
    """The model called the tool with arguments that do not fit the definition it was given.

    Unknown and missing arguments, wrong types and values that are not in an enumeration count. Definitions come from
    the tools that the model's request lists; where it lists none, it does not hold. With `min`, at least that many
    calls.
    """

    plain = "tool"
    notes = {"tool": _ANY_TOOL, "min": "the least number of such calls"}
    examples = (
        "tool.invalid_arguments: search_flights",
        'tool.invalid_arguments: {tool: "*", min: 2}',
    )
    tool: str
    min: Annotated[int, Meta(ge=1)] = 1

    def check(self, run: TraceRun, context: Context) -> Seen:
        flaws = [call for call in invalid_calls(run) if glob(self.tool, call[1])]
        least = "a call" if self.min == 1 else f"at least {self.min} calls"
        expected = f"{least} of {self.tool!r} with arguments that do not fit"
        if not flaws:
            text = f"The arguments of {self.tool!r} fit"
            return Seen(False, text, expected, text.lower(), last_seq(run))
        call, name, flaw = flaws[min(self.min, len(flaws)) - 1]
        times = f", {len(flaws)} times" if len(flaws) > 1 else ""
        return Seen(
            holds=len(flaws) >= self.min,
            text=f"The model called {name!r} with {flaw}{times}",
            expected=expected,
            actual=f"{flaw}{times}",
            seq=call.seq,
        )


@ASSERTIONS.register("tool.only_announced")
class ToolOnlyAnnounced(Rule, frozen=True, kw_only=True):
    """The model said that it would use this tool, and no call of it was ever made.

    The name has to stand in what the model said, behind a verb such as "use" or "call". An agent that writes code calls
    a tool where its code does: `search_docs(…)`.
    """

    plain = "tool"
    notes = {"tool": "the tool's name; a plain text is this"}
    examples = ("tool.only_announced: search_docs",)
    tool: str

    def __post_init__(self) -> None:
        if not self.tool.strip():
            raise ValueError("expected the name of a tool")

    def check(self, run: TraceRun, context: Context) -> Seen:
        expected = f"tool {self.tool!r} announced and never called"
        announced = [call for call in run.llm_calls if _announces(answer_text(call), self.tool)]
        if not announced:
            return Seen(False, f"Tool {self.tool!r} was not announced", expected, "not announced", last_seq(run))
        called = next(_calls_of(run, self.tool), None)
        if called is not None:
            return Seen(False, f"Tool {self.tool!r} was announced and called", expected, "called", called)
        times = f" {len(announced)} times" if len(announced) > 1 else ""
        text = f"The model announced {self.tool!r}{times} and never called it"
        return Seen(True, text, expected, f"announced{times}, not called", answered_at(run))


@ASSERTIONS.register("tool.lookup_skipped")
class ToolLookupSkipped(Rule, frozen=True, kw_only=True):
    """True: the model planned to look something up, and answered without any tool's answer. False: not so.

    A plan is a sentence such as "use a web search", "look up the order", "retrieve the list from …", in English. A call
    that failed, and the call that hands in the final answer, tell nothing.
    """

    plain = "skipped"
    named = False
    examples = ("tool.lookup_skipped: true",)
    skipped: bool

    def check(self, run: TraceRun, context: Context) -> Seen:
        if self.skipped:
            expected = "a planned lookup that was not made"
        else:
            expected = "every planned lookup made"
        plan = next(_planned_lookups(run), None)
        source = None if plan is None else next(_telling_events(run), None)
        if plan is None or source is not None:
            if plan is None:
                text = "No lookup was planned"
            else:
                text = f"Event {source} told the agent something"
            return Seen(not self.skipped, text, expected, text[0].lower() + text[1:], source or last_seq(run))
        words = plan
        text = f"The model planned to {words!r} and answered without any tool's answer"
        return Seen(self.skipped, text, expected, f"{words!r}, and no tool's answer", answered_at(run))


def telling_calls(run: TraceRun) -> Iterator[int]:
    """Give the events from which the agent learned something: answered tool calls, and code that calls a tool."""
    for call in run.tool_calls:
        if call.answered and call_failed(call) is None and not hands_in_answer(run, call):
            yield call.seq
    called = {call.name for call in run.tool_calls}
    names = [name for name in introduced_tools(run) if name not in called]
    if names:
        in_code = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})\(")
        yield from (call.seq for call in run.llm_calls if in_code.search(answer_text(call)))


def _telling_events(run: TraceRun) -> Iterator[int]:
    """Give the events from which the agent learned something: calls, and what code it wrote put out."""
    yield from telling_calls(run)
    for call in run.llm_calls:
        if any(message.role in TOOL_ROLES for message in request_messages(call)) and call.seq <= (
            answered_at(run) or 0
        ):
            yield call.seq


def hands_in_answer(run: TraceRun, call: ToolCall) -> bool:
    """True for the call by which an agent gives its final answer: it takes the output, or its name says so."""
    if _ANSWERING.search(call.name):
        return True
    if not says_something(run) or not isinstance(call.arguments, dict):
        return False
    answer = output_text(run).strip()
    return any(same(run.output, value) or str(value).strip() == answer for value in call.arguments.values())


def answered_at(run: TraceRun) -> int | None:
    """Return the model call in which the agent gave its answer: the last one, or the last before a call hands it in."""
    handed_in = next((call.seq for call in reversed(run.tool_calls) if hands_in_answer(run, call)), None)
    earlier = [call.seq for call in run.llm_calls if handed_in is None or call.seq < handed_in]
    if earlier:
        return earlier[-1]
    return last_seq(run)


def _planned_lookups(run: TraceRun) -> Iterator[str]:
    for call in run.llm_calls:
        found = _PLANS_LOOKUP.search(answer_text(call))
        if found is not None:
            yield " ".join(found[0].split())


def unoffered_calls(run: TraceRun) -> Iterator[tuple[LlmCall, str, dict[str, dict[str, Json]]]]:
    """Give each model call that asked for a tool it was not offered, with the tool's name and what was offered."""
    for call in run.llm_calls:
        requests = requested_tools(call)
        offered = offered_tools(call) if requests else {}
        for request in requests:
            if offered and request.name and request.name not in offered:
                yield call, request.name, offered


def invalid_calls(run: TraceRun) -> Iterator[tuple[LlmCall, str, str]]:
    """Give each model call whose tool call does not fit the tool's definition, with the tool's name and the flaw."""
    for call in run.llm_calls:
        requests = requested_tools(call)
        offered = offered_tools(call) if requests else {}
        for request in requests:
            schema = offered.get(request.name)
            if schema is None:
                flaw = None
            else:
                flaw = argument_flaw(request.arguments, schema)
            if flaw is not None:
                yield call, request.name, flaw


def introduced_tools(run: TraceRun) -> list[str]:
    """Return the names of the tools that a run's requests list, or that its system prompts introduce line by line.

    A name has to look like one (`search_docs`, `searchDocs`): "use search" may mean anything.
    """
    names: dict[str, None] = {}
    reader = RequestReader()
    for call in run.llm_calls:
        names.update(dict.fromkeys(offered_tools(call)))
        for message in reader.new_messages(call):
            if message.role in _INSTRUCTING and _SPEAKS_OF_TOOLS.search(message.text):
                names.update(dict.fromkeys(_INTRODUCED.findall(message.text)))
    return [name for name in names if _IDENTIFIER.fullmatch(name)]


def _announces(text: str, tool: str) -> bool:
    if tool not in text:
        return False
    name = re.escape(tool)
    return re.search(rf"\b(?:{_USES})\b[^.!?\n]{{0,80}}?(?<!\w){name}(?!\w)", text, re.IGNORECASE) is not None


def _calls_of(run: TraceRun, tool: str) -> Iterator[int]:
    """Give the events in which the tool was called, or in which code that the model wrote calls it."""
    in_code = re.compile(rf"(?<![\w.]){re.escape(tool)}\(")  # behind a blank, a bracket opens a remark
    for event in run.events:
        if isinstance(event, ToolCall) and event.name == tool:
            yield event.seq
        elif isinstance(event, LlmCall):
            is_requested = any(request.name == tool for request in requested_tools(event))
            if is_requested or in_code.search(answer_text(event)):
                yield event.seq
