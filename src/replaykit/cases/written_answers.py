"""Written answers: a person's answers for calls that no take holds.

    - model: gpt-5
      answer: The order was refunded.          # a text, or {content, tool_calls: [{name, arguments}]}
    - tool: get_order
      result: {status: shipped}
    - tool: refund_order
      error: {type: TimeoutError, message: the gateway timed out}

Each entry answers one call of that tool or model, in file order.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.tagged_values import as_it_stands
from replaykit.documents.document import Document, FilePath, load_document
from replaykit.documents.shape import ANYTHING, SOME_TEXT, Flaw, Flaws, ListOf, Record, Text, find_flaws, refuse_flaws
from replaykit.model.events import Call, ErrorInfo, LlmCall, ToolCall
from replaykit.model.values import ABSENT, Json, JsonObject, Raw, raw

PERSON = "person"
"""The source of an answer that was typed in."""
_OUTCOMES = {"tool": ("result", "error"), "model": ("answer", "error")}


def _answer_flaws(value: JsonObject) -> Flaws:
    named = [key for key in _OUTCOMES if key in value]
    if len(named) != 1:
        yield Flaw((), "missing-key", "name either a tool or a model", "Add `tool: NAME` or `model: NAME`.")
        return
    allowed = _OUTCOMES[named[0]]
    outcomes = [key for key in ("answer", "result", "error") if key in value]
    if len(outcomes) != 1 or outcomes[0] not in allowed:
        message = f"a {named[0]} needs one of `{allowed[0]}` and `{allowed[1]}`"
        yield Flaw((), "missing-key", message, f"Add `{allowed[0]}: …`.")


ANSWERS = ListOf(
    Record(
        {
            "tool": SOME_TEXT,
            "model": SOME_TEXT,
            "answer": ANYTHING,
            "result": ANYTHING,
            "error": Record({"type": SOME_TEXT, "message": Text()}, required=("type",)),
        },
        cross=_answer_flaws,
    )
)


class WrittenAnswer(Struct, frozen=True, kw_only=True):
    """A person's answer to one call."""

    name: str
    is_model: bool
    result_json: Raw = ABSENT
    error: ErrorInfo | None = None
    source: str = PERSON
    """Its file, or `person`."""

    def fits(self, call: Call) -> bool:
        """True if it answers calls of this kind and name."""
        kind = LlmCall if self.is_model else ToolCall
        return isinstance(call, kind) and call.name == self.name

    def applied(self, call: Call, number: int) -> Call:
        """Return the call with this answer and another number, without its recorded bytes."""
        return msgspec.structs.replace(
            call,
            seq=number,
            result_json=self.result_json,
            error=self.error,
            items_json=None,
            complete=True,
            wire=None,
            span=None,
        )


def read_answers(path: FilePath) -> list[WrittenAnswer]:
    """Return the answers in a YAML or JSON file; an `InvalidFile` names the line of the first flaw."""
    document = load_document(path)
    refuse_flaws(document, find_flaws(ANSWERS, document.value))
    return [_answer(document, value) for value in document.value]


def _answer(document: Document, value: JsonObject) -> WrittenAnswer:
    is_model = "model" in value
    answer = WrittenAnswer(
        name=value["model" if is_model else "tool"], is_model=is_model, source=Path(document.file).name
    )
    error = value.get("error")
    if error is not None:
        return msgspec.structs.replace(answer, error=error_info(error))
    result = message_json(value["answer"]) if is_model else as_it_stands(value["result"])
    return msgspec.structs.replace(answer, result_json=result)


def error_info(error: JsonObject) -> ErrorInfo:
    """Return `{type, message}` as an error."""
    message = error.get("message", "")
    return ErrorInfo(type=error["type"], message=message, args_json=raw((message,) if message else ()))


def message_json(answer: Json) -> Raw:
    """Return a model's answer as a message; a text is its content."""
    from replaykit.wire.model_calls import answer_of  # noqa: PLC0415 (few answers are written by hand)

    return raw(answer_of(answer).message)


def take_fitting(answers: list[WrittenAnswer], call: Call) -> WrittenAnswer | None:
    """Remove and return the first answer that fits a call; None if there is none."""
    for index, answer in enumerate(answers):
        if answer.fits(call):
            return answers.pop(index)
    return None


def unused_text(answers: Sequence[WrittenAnswer]) -> str:
    """Name the answers that no call asked for."""
    names = ", ".join(dict.fromkeys(f"`{answer.name}`" for answer in answers))
    return f"{len(answers)} of the answers were not asked for: {names}"
