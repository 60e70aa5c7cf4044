"""Who&When: failed conversations of several agents, annotated with who made the mistake, and when.

    {question, question_ID, level, ground_truth, is_correct | is_corrected,
     mistake_agent, mistake_step, mistake_reason, system_prompt: {agent: prompt},
     history: [{content, role, name}, …]}

Each entry of the history is a step of the run, named by number and agent (`24 WebSurfer`), so that `mistake_step`
refers to it. The agent is the `name`, or else the `role`, without a trailing part in parentheses: `Orchestrator (->
WebSurfer)`. Everything that an agent says is an answer of an unnamed model. The terminal is a tool: it runs the code in
the message before. The tools that a `WebSurfer` used are not in the trace, nor are the prompts of its model. The answer
is the last message, without the closing word (`TERMINATE`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.registry import of_each, register_format
from replaykit.formats.core.replayability import Lack
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_text, has_list
from replaykit.wire.model_calls import ModelAnswer, ToolUse

FORMAT = "who_and_when"
_TERMINALS = ("Computer_terminal", "ComputerTerminal")
_HUMANS = ("human", "user")
_CODE = re.compile(r"```[^\n`]*\n(.*?)```", re.DOTALL)
_EXIT = re.compile(r"exitcode: (-?\d+)")
_CLOSING_WORD = "TERMINATE"
_ADVICE = (
    "Who&When keeps what agents said to each other, not what their models were asked, nor all calls of their tools."
)


register_format(
    FORMAT,
    "Who&When: conversations of several agents with `mistake_agent` and `mistake_step`",
    lambda source: bool(source.first) and _is_annotated(source.first[0]),
    lambda source: of_each(source, lambda document: [_read(document)]),
)


class _Entry(Struct, frozen=True):
    """One message of an agent."""

    agent: str
    content: Json
    step: str


def _is_annotated(value: Json) -> bool:
    return has_list(value, "history") and "mistake_step" in value


def _read(source: Source) -> TraceRun:
    whole = Fields(source, source.value, (), "an annotated failure of Who&When")
    if not _is_annotated(whole.value) or not whole.value["history"]:
        raise whole.error("expected a history and its mistake_step", "history")
    entries = [_entry(index, fields) for index, fields in enumerate(whole.each("history", "an entry"))]
    talk = Talk(system=whole.object("system_prompt") or None)
    question = whole.text("question")
    # In some files, the history starts with the question.
    if question and entries[0].agent not in _HUMANS:
        talk.says("user", question)
    for entry, following in zip(entries, [*entries[1:], None], strict=True):
        _add_entry(talk, entry, following)
    run = talk.run(
        id=content_id(FORMAT, canonical(whole.value)),
        format=FORMAT,
        name=whole.label("question_ID", "question_id") or "",
        input=UNSET if question is None else question,
        output=next(_answers(entries), UNSET),
        status=RunStatus.SUCCESS,
        metadata={"level": whole.label("level"), "agents": list(dict.fromkeys(entry.agent for entry in entries))},
        advice=[_ADVICE],
    )
    return labelled(run, [_label(whole)])


def _entry(index: int, fields: Fields) -> _Entry:
    agent = (fields.text("name") or fields.text("role") or "").partition(" (")[0] or "agent"
    return _Entry(agent, fields.take("content"), f"{index} {agent}")


def _add_entry(talk: Talk, entry: _Entry, following: _Entry | None) -> None:
    text = as_text(entry.content)
    if entry.agent in _HUMANS:
        talk.says("user", entry.content)
    elif entry.agent in _TERMINALS:
        # The terminal prints the exit code first.
        code, error = _EXIT.match(text), None
        if code is not None and code[1] != "0":
            error = ErrorInfo(type="ExitCode", message=text)
        talk.returns(entry.content, name=entry.agent, error=error, ending=ToolErrors.RETURNED)
    else:
        uses: tuple[ToolUse, ...] = ()
        if following is not None and following.agent in _TERMINALS:
            uses = (ToolUse(name=following.agent, arguments={"code": "\n".join(_CODE.findall(text))}),)
        turn = talk.answers(ModelAnswer(content=text or None, tool_calls=uses), step=entry.step)
        # What its model was sent is not in the file.
        turn.lacks.add(Lack.MESSAGES)


def _answers(entries: list[_Entry]) -> Iterator[str]:
    """Yield the answers of agents, the last one first."""
    for entry in reversed(entries):
        answer = as_text(entry.content).strip().removesuffix(_CLOSING_WORD).strip()
        if answer and entry.agent not in (*_HUMANS, *_TERMINALS):
            yield answer


def _label(whole: Fields) -> Label:
    agent, step = whole.label("mistake_agent") or "", whole.label("mistake_step") or ""
    is_correct = whole.take("is_correct", "is_corrected") is True
    answer = (whole.label("ground_truth") or "").strip()
    expected: tuple[str, ...] = ()
    # Some references are lists, one fact on each line.
    if "\n" in answer:
        expected = tuple(filter(None, map(str.strip, answer.splitlines())))
        answer = ""
    return Label(
        name="is_correct",
        value=is_correct,
        failed=not is_correct,
        why=f"{agent} at step {step}: {whole.text('mistake_reason') or ''}",
        expected_output=expected,
        expected_answer=answer,
    )
