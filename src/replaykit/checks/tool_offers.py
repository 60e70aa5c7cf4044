"""Assertions about tool calls and tools on offer: unknown tools, wrong arguments, dropped plans.

Arguments are checked against the parts of JSON Schema that tool definitions use: unknown and missing arguments, types
and enumerations. Other parts of a schema are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from typing import Annotated

from msgspec import Meta

from replaykit.checks.compare import same
from replaykit.checks.conversation import (
    TOOL_ROLES,
    RequestReader,
    ToolRequest,
    answer_text,
    offered_tools,
    request_messages,
    requested_tools,
)
from replaykit.checks.failures import call_failed
from replaykit.checks.reading import first, glob, last_seq, output_text, says_something, seq_of, shown
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import LlmCall, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.redaction.lazy_patterns import lazy
from replaykit.wire.json_fields import as_object

_ANY_TOOL = f"{TOOL_NOTE}; a plain text sets this"
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


@register("tool.not_offered")
class ToolNotOffered(Rule, frozen=True):
    """The model asked for a tool that it was not offered: it made up the name.

    Only model calls whose request lists tools count; without any, the assertion does not hold.
    """

    plain = "tool"
    notes = {"tool": _ANY_TOOL}
    examples = ('tool.not_offered: "*"', "tool.not_offered: refund_order")
    tool: str

    def seen_in(self, run: TraceRun) -> Seen:
        unoffered_call = first(unoffered_calls(run), lambda unoffered: glob(self.tool, unoffered[1]))
        expected = f"a call of {self.tool!r} that was not offered"
        if unoffered_call is None:
            text = "Every tool that was asked for was offered"
            return Seen(False, text, expected, text.lower(), last_seq(run))
        call, name, offered = unoffered_call
        text = f"The model asked for {name!r}, which it was not offered"
        return Seen(True, text, expected, f"offered: {', '.join(sorted(offered)[:8])}", call.seq)


@register("tool.invalid_arguments")
class ToolInvalidArguments(Rule, frozen=True):
    """The model called the tool with arguments that do not fit the definition it was given.

    Unknown and missing arguments, wrong types and values that are not in an enumeration count. The definitions are the
    tools in the model's request; if it has none, the assertion does not hold. `min` is their minimum number.
    """

    plain = "tool"
    notes = {"tool": _ANY_TOOL, "min": "the minimum number of such calls"}
    examples = (
        "tool.invalid_arguments: search_flights",
        'tool.invalid_arguments: {tool: "*", min: 2}',
    )
    tool: str
    min: Annotated[int, Meta(ge=1)] = 1

    def seen_in(self, run: TraceRun) -> Seen:
        flaws = [invalid for invalid in invalid_calls(run) if glob(self.tool, invalid[1])]
        least = "a call" if self.min == 1 else f"at least {self.min} calls"
        expected = f"{least} of {self.tool!r} with arguments that do not fit"
        if not flaws:
            text = f"The arguments of {self.tool!r} fit"
            return Seen(False, text, expected, text.lower(), last_seq(run))
        call, name, flaw = flaws[min(self.min, len(flaws)) - 1]
        times = f", {len(flaws)} times" if len(flaws) > 1 else ""
        text = f"The model called {name!r} with {flaw}{times}"
        return Seen(len(flaws) >= self.min, text, expected, f"{flaw}{times}", call.seq)


@register("tool.only_announced")
class ToolOnlyAnnounced(Rule, frozen=True):
    """The model said that it would use this tool, and never called it.

    The name must follow a verb such as "use" or "call" in the model's words. For an agent that writes code, a call in
    its code counts: `search_docs(…)`.
    """

    plain = "tool"
    notes = {"tool": "the tool's name; a plain text sets this"}
    examples = ("tool.only_announced: search_docs",)
    tool: str

    def __post_init__(self) -> None:
        if not self.tool.strip():
            raise ValueError("expected the name of a tool")

    def seen_in(self, run: TraceRun) -> Seen:
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


@register("tool.lookup_skipped")
class ToolLookupSkipped(Rule, frozen=True):
    """True: the model planned to look something up, then answered without any result from a tool. False: it did not.

    A plan is a sentence such as "use a web search", "look up the order", "retrieve the list from …", in English. Failed
    calls, and the call that submits the final answer, do not count as results.
    """

    plain = "skipped"
    named = False
    examples = ("tool.lookup_skipped: true",)
    skipped: bool

    def seen_in(self, run: TraceRun) -> Seen:
        expected = "a planned lookup that was not made" if self.skipped else "every planned lookup made"
        plan = next(filter(None, map(_planned_lookup, run.llm_calls)), None)
        if plan is None:
            return Seen(not self.skipped, "No lookup was planned", expected, "no lookup was planned", last_seq(run))
        source = next(_telling_events(run), None)
        if source is not None:
            text = f"Event {source} instructed the agent"
            return Seen(not self.skipped, text, expected, text.replace("E", "e", 1), source or last_seq(run))
        text = f"The model planned to {plan!r} and answered without any tool's answer"
        return Seen(self.skipped, text, expected, f"{plan!r}, and no tool's answer", answered_at(run))


def telling_calls(run: TraceRun) -> Iterator[int]:
    """Yield the events that informed the agent: answered tool calls, and code that calls a tool."""
    for call in run.tool_calls:
        # The call that submits the answer informs nobody.
        if call.answered and call_failed(call) is None and not hands_in_answer(run, call):
            yield call.seq
    called = {call.name for call in run.tool_calls}
    names = [name for name in introduced_tools(run) if name not in called]
    if names:
        in_code = re.compile(rf"(?<![\w.])(?:{'|'.join(map(re.escape, names))})\(")
        yield from (call.seq for call in run.llm_calls if in_code.search(answer_text(call)))


def _telling_events(run: TraceRun) -> Iterator[int]:
    """Yield the events that informed the agent, including the output of code that it wrote."""
    yield from telling_calls(run)
    end = answered_at(run) or 0
    for call in run.llm_calls:
        if call.seq <= end and any(message.role in TOOL_ROLES for message in request_messages(call)):
            yield call.seq


def hands_in_answer(run: TraceRun, call: ToolCall) -> bool:
    """Return whether this call gives the agent's final answer: it takes the output, or its name says so."""
    if _ANSWERING.search(call.name):
        return True
    # Without an output, no call can have submitted it.
    if not says_something(run) or not isinstance(call.arguments, dict):
        return False
    answer = output_text(run).strip()
    return any(same(run.output, value) or str(value).strip() == answer for value in call.arguments.values())


def answered_at(run: TraceRun) -> int | None:
    """Return the model call with the agent's answer: the last one, or the last before a call that submits it."""
    handed_in = first(reversed(run.tool_calls), partial(hands_in_answer, run))
    # The last model call may only react to the submission.
    answered = first(reversed(run.llm_calls), lambda call: handed_in is None or call.seq < handed_in.seq)
    return seq_of(answered, run)


def _planned_lookup(call: LlmCall) -> str | None:
    match = _PLANS_LOOKUP.search(answer_text(call))
    return match and " ".join(match[0].split())


def _requests(run: TraceRun) -> Iterator[tuple[LlmCall, ToolRequest, dict[str, JsonObject]]]:
    """Yield each requested tool call, with its model call and the tools on offer."""
    for call in run.llm_calls:
        requests = requested_tools(call)
        offered = offered_tools(call) if requests else {}
        for request in requests:
            yield call, request, offered


def unoffered_calls(run: TraceRun) -> Iterator[tuple[LlmCall, str, dict[str, JsonObject]]]:
    """Yield each model call that requested a tool not on offer, with the tool's name and the tools on offer."""
    for call, request, offered in _requests(run):
        # Without a list of tools, nothing can be told.
        if offered and request.name and request.name not in offered:
            yield call, request.name, offered


def invalid_calls(run: TraceRun) -> Iterator[tuple[LlmCall, str, str]]:
    """Yield each model call with arguments that do not fit the tool's definition, with the tool's name and the flaw."""
    for call, request, offered in _requests(run):
        if request.name in offered:
            flaw = argument_flaw(request.arguments, offered[request.name])
            if flaw is not None:
                yield call, request.name, flaw


def introduced_tools(run: TraceRun) -> list[str]:
    """Return the tools that a run's requests list, or that its system prompts introduce line by line.

    A name must look like one (`search_docs`, `searchDocs`): "use search" may mean anything.
    """
    names: dict[str, None] = {}
    reader = RequestReader()
    for call in run.llm_calls:
        names.update(dict.fromkeys(offered_tools(call)))
        for message in reader.new_messages(call):
            # Other messages may quote names that are no tools of this agent.
            if message.role in _INSTRUCTING and _SPEAKS_OF_TOOLS.search(message.text):
                names.update(dict.fromkeys(_INTRODUCED.findall(message.text)))
    return [name for name in names if _IDENTIFIER.fullmatch(name)]


def _announces(text: str, tool: str) -> bool:
    if tool not in text:
        return False
    name = re.escape(tool)
    # A name alone may be a topic; a verb before it is a plan.
    return re.search(rf"\b(?:{_USES})\b[^.!?\n]{{0,80}}?(?<!\w){name}(?!\w)", text, re.IGNORECASE) is not None


def _calls_of(run: TraceRun, tool: str) -> Iterator[int]:
    """Yield the events that call the tool, or hold code of the model that does."""
    in_code = re.compile(rf"(?<![\w.]){re.escape(tool)}\(")  # after a blank, a bracket opens a remark
    for event in run.events:
        if isinstance(event, ToolCall) and event.name == tool:
            yield event.seq
        elif isinstance(event, LlmCall):
            requested = {request.name for request in requested_tools(event)}
            if tool in requested or in_code.search(answer_text(event)):
                yield event.seq


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
# Members of a schema that allow more than `properties`.
_OPEN = frozenset({"anyOf", "oneOf", "allOf", "$ref", "if", "patternProperties"})


def argument_flaw(arguments: Json, schema: JsonObject) -> str | None:
    """Return the first flaw of the arguments; None if there is none, or the schema cannot tell."""
    if not isinstance(arguments, dict):
        return f"arguments that are not an object: {shown(arguments)}"
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not _OPEN.isdisjoint(schema):
        return None
    unknown = first(arguments, lambda name: name not in properties)
    if unknown is not None and not schema.get("additionalProperties"):
        return f"unknown argument {unknown!r}"
    required = schema.get("required")
    for name in required if isinstance(required, list) else ():
        if name not in arguments:
            return f"missing argument {name!r}"
    for name, value in arguments.items():
        flaw = _value_flaw(value, as_object(properties.get(name)))
        if flaw is not None:
            return f"argument {name!r} is {flaw}"
    return None


def _value_flaw(value: Json, schema: JsonObject) -> str | None:
    if not _OPEN.isdisjoint(schema) or (schema.get("nullable") is True and value is None):
        return None
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and value not in choices:
        return f"{shown(value)}, not one of {shown(choices)}"
    types = schema.get("type")
    listed = types if isinstance(types, list) else [types]
    kinds = [kind.lower() for kind in listed if isinstance(kind, str)]
    if not kinds or not _TYPES.keys() >= set(kinds) or any(map(partial(_is_of, value), kinds)):
        return None
    return f"{shown(value)}, not of type {' or '.join(kinds)}"


def _is_of(value: Json, kind: str) -> bool:
    # In Python, a boolean is an integer.
    if isinstance(value, bool):
        return kind == "boolean"
    # JSON has one kind of number: 2.0 is an integer.
    if kind == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, _TYPES[kind])
