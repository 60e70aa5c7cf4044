"""Contradictions: find outputs that state another value than a tool's result.

Only what the words prove: the tool's result has a member such as `balance: 120`, the output states an unsupported
figure after the word "balance", and 120 is nowhere in it; or the result has `refundable: false`, and the output says
"is refundable".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial

from msgspec import Struct

from replaykit.checks.failures import call_failed
from replaykit.checks.figures import Figure
from replaykit.checks.grounding import ALL, Ungrounded, output_figures, unexplained, ungrounded
from replaykit.checks.reading import first, glob, has_output, last_seq, output_text, shown
from replaykit.checks.rule import Rule, Seen, register
from replaykit.checks.tools import TOOL_NOTE
from replaykit.model.events import ToolCall
from replaykit.model.nesting import decode_json
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json

_REACH_CHARS = 60
_MIN_WORD = 4
_MAX_MEMBERS = 5_000
_COMMON = frozenset(words_of("number value index count status type name code version success true"))


class ToolMember(Struct, frozen=True):
    """A named number or flag in a tool's result."""

    call: ToolCall
    name: str
    value: float | bool

    @property
    def word(self) -> str:
        """The words of its name, as in a text."""
        return " ".join(re.findall(r"[A-Z]?[a-z]+|[A-Z]+", self.name)).lower()


class Contradiction(Struct, frozen=True):
    """A statement of the output, and the member of a tool's result that contradicts it."""

    statement: str
    member: ToolMember


@register("output.contradicts")
class OutputContradicts(Rule, frozen=True):
    """The output contradicts an answer of the tool: it gives another number, or says yes where the tool said no.

    A number counts when the output states it within 60 characters behind the name of a member of the tool's answer,
    nothing in the run says it, and the output does not state the member's own value. A yes counts when the member is
    false in every answer that has it, and the output says "is", "are" or "has been" with its name.
    """

    plain = "tool"
    notes = {"tool": f"{TOOL_NOTE}; a plain text sets this"}
    examples = ("output.contradicts: lookup_billing", 'output.contradicts: "*"')
    tool: str

    def seen_in(self, run: TraceRun) -> Seen:
        expected = f"output that contradicts tool {self.tool!r}"
        found = first(contradictions_in(run), lambda found: glob(self.tool, found.member.call.name))
        if found is None:
            text = f"Output does not contradict tool {self.tool!r}"
            return Seen(False, text, expected, text.lower(), last_seq(run))
        member = found.member
        own = f"{member.name} is {shown(member.value)}"
        text = f"Output says {found.statement!r}, but tool {member.call.name!r} answered that {own}"
        return Seen(True, text, expected, f"{found.statement!r} where {own}", member.call.seq)


_underived = partial(ungrounded, derive=ALL)


def certain_contradictions(run: TraceRun) -> Iterator[Contradiction]:
    """Yield contradictions between a run's output and its tools that no calculation explains."""
    yield from contradictions_in(run, unexplained)


def contradictions_in(
    run: TraceRun, find_missing: Callable[[TraceRun, list[Figure]], list[Ungrounded]] = _underived
) -> Iterator[Contradiction]:
    """Yield contradictions between a run's output and its tools."""
    if not has_output(run):
        return
    members = list(_members(run))
    if not members:
        return
    text = output_text(run)
    numbers: dict[str, ToolMember] = {}
    """The last number of each name."""
    flags: defaultdict[str, list[ToolMember]] = defaultdict(list)
    for member in members:
        if isinstance(member.value, bool):
            flags[member.word].append(member)
        else:
            numbers[member.word] = member
    yield from _other_numbers(text, numbers, find_missing(run, output_figures(run)))
    yield from _yes_for_no(text, flags)


def _other_numbers(text: str, numbers: dict[str, ToolMember], missing: list[Ungrounded]) -> Iterator[Contradiction]:
    for unsourced in missing:
        figure = unsourced.figure
        if figure.kind != "number":
            continue
        place = text.find(figure.text)
        before = text[max(0, place - _REACH_CHARS) : place].lower()
        for word, member in numbers.items():
            if re.search(rf"\b{re.escape(word)}\b[^.!?\n]*$", before):
                statement = " ".join(f"{before[before.rfind(word) :]}{figure.text}".split())
                yield Contradiction(statement, member)


def _yes_for_no(text: str, flags: dict[str, list[ToolMember]]) -> Iterator[Contradiction]:
    for word, named in flags.items():
        if any(member.value for member in named):
            continue
        pattern = rf"\b(?:is|are|was|were|has been|have been)\s+(?:now\s+|already\s+|fully\s+)?{re.escape(word)}\b"
        found = re.search(pattern, text, re.IGNORECASE)
        if found is not None and not _is_conditional(text, found.start()):
            yield Contradiction(" ".join(found[0].split()), named[-1])


def _is_conditional(text: str, place: int) -> bool:
    clause = re.split(r"[.!?\n]", text[:place])[-1]
    return re.search(r"\b(?:if|whether|once|when|unless|not|no|none|neither|only)\b", clause, re.IGNORECASE) is not None


def _members(run: TraceRun) -> Iterator[ToolMember]:
    """Yield the named numbers and flags in tool results."""
    count = 0
    for call in run.tool_calls:
        if call_failed(call) is not None:
            continue
        for name, value in _named(_structure(call.result)):
            member = ToolMember(call, name, value)
            if len(member.word) >= _MIN_WORD and member.word not in _COMMON:
                yield member
                count += 1
            if count >= _MAX_MEMBERS:
                return


def _structure(result: Json) -> Json:
    if isinstance(result, str) and result.lstrip()[:1] in ("{", "["):
        try:
            return decode_json(result)
        except ValueError:
            return None
    return result


def _named(value: Json) -> Iterator[tuple[str, float | bool]]:
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            for name, inner in item.items():
                if isinstance(inner, bool | int | float):
                    yield str(name), inner
                else:
                    stack.append(inner)
        elif isinstance(item, list):
            stack += item
