"""Injection: instructions that came in with a tool's result, and the call in which the agent obeyed them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from replaykit.model.events import Message, ToolCall
from replaykit.model.run import TraceRun
from replaykit.model.values import Json

# Narrow on purpose: logs, manuals and greetings say "you are now", "[system]" and "ignore all" as well.
_INSTRUCTION = re.compile(
    r"""
      \b(?:ignore|disregard|forget|override|bypass)\b.{0,30}?\b(?:
          (?:previous|prior|above|earlier|preceding)\b.{0,30}?\b
            (?:instructions?|prompts?|rules|directions|guidelines|context|messages)
        | (?:your|all|any)\b.{0,30}?\b(?:instructions?|prompts?)
      )\b
    | \bnew\s+(?:system\s+)?instructions?\s*:
    | \byou\s+are\s+now\s+(?:in\s+\w+\s+mode|acting\s+as|no\s+longer\s+bound)\b
    | \bdo\s+not\s+(?:tell|mention|inform|reveal|show)\b.{0,30}?\buser\b
    | <\s*/?\s*system\s*> | ^\s*system\s*(?:prompt|message|override)\s*:
    | \b(?:note|message|attention|instructions?)\s+(?:to|for)\s+(?:the\s+)?
        (?:ai|llm|assistants?|agents?|language\s+models?)\b
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL | re.MULTILINE,
)
_REACH = 600  # how far from an instruction's words its particulars are looked for
_MIN_CHARS = 5  # a shorter argument occurs in any text by chance


class Obeyed(Struct, frozen=True):
    """A call that carries what an injected instruction dictated."""

    call: ToolCall
    argument: tuple[str, str]
    """Name and value of the most telling argument that stands in the instruction and not in what the user said."""


def obeyed_calls(run: TraceRun) -> list[Obeyed]:
    """The calls, in order, that follow an instruction from an earlier tool result."""
    asked = _said_by_user(run)
    instructions: list[str] = []
    found = []
    for call in run.tool_calls:
        dictated = _dictated(call, instructions, asked)
        if dictated:
            found.append(Obeyed(call, max(dictated.items(), key=_telling)))
        for text in _texts([call.result, call.items]):
            instructions += _passages(text)
    return found


def _passages(text: str) -> list[str]:
    """What surrounds each instruction in a text, in lower case: only there an argument counts as dictated."""
    return [text[max(0, m.start() - _REACH) : m.end() + _REACH].lower() for m in _INSTRUCTION.finditer(text)]


def _dictated(call: ToolCall, instructions: list[str], asked: str) -> dict[str, str]:
    if not instructions or not isinstance(call.arguments, dict):
        return {}
    return {
        name: value
        for name, value in call.arguments.items()
        if isinstance(value, str)
        and len(value.strip()) >= _MIN_CHARS
        and value.strip().lower() not in asked
        and any(value.strip().lower() in passage for passage in instructions)
    }


def _telling(argument: tuple[str, str]) -> tuple[bool, int]:
    """An address before a phrase, a long text before a short: one argument, so that a variation is still caught."""
    _name, value = argument
    return ("@" in value or "://" in value) and " " not in value, len(value)


def _said_by_user(run: TraceRun) -> str:
    said = [e.content for e in run.events if isinstance(e, Message) and e.role in ("user", "system")]
    return "\n".join(_texts([run.input, *said])).lower()


def _texts(value: Json) -> Iterator[str]:
    """Every text in a value; a stack of its own, so that depth does not matter."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            stack += [*item.values()]
        elif isinstance(item, list | tuple | set | frozenset):
            stack += item
