"""OpenHands trajectories: lists of events, and the `output.jsonl` of evaluations and of the resolver.

    [event, …]    {history: [event, …]}    one such object on each line, with what was judged of it:
    {instance_id, instruction, history, git_patch, metrics: {accumulated_cost}, error,
     test_result: {report: {resolved}}, report: {resolved}, resolved, success, result_explanation}

    event  {id, timestamp, source, message, action, args, tool_call_metadata: {function_name, tool_call_id,
            model_response}}   or   {id, cause, observation, content, extras}

An action is what the agent does, an observation what came of it: that of its `cause`, or else of the action before. In
older files the arguments stand in the event itself, and pairs of both may be lists. `model_response` is a chat
completion; actions that share one are one answer with several calls. An action without it is an answer too, of a model
whose name nobody wrote down. `finish` is no call of a tool but the agent's answer.
"""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.errors import InvalidFile
from replaykit.formats.core.errors import error_of
from replaykit.formats.core.fields import Fields
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.registry import IMPORTERS, Found
from replaykit.formats.core.source import Source
from replaykit.formats.core.talk import UNSET, content_id
from replaykit.formats.openhands.events import read_history
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text

FORMAT = "openhands"
_METADATA = ("issue", "issue_type", "base_commit", "git_patch", "metadata", "metrics", "test_result", "report")
_SHORT = 2_000


class OpenHandsImporter:
    """Reads trajectories of OpenHands."""

    name = FORMAT
    title = "OpenHands: event lists, and `output.jsonl` with `history`"

    def recognises(self, source: Source) -> bool:
        if not source.first:
            return False
        value = source.first[0]
        if isinstance(value, list):
            return _are_events(value) and not source.is_lines
        return isinstance(value, dict) and (_are_events(value.get("history")) or _is_event_line(value, source))

    def read(self, source: Source) -> Iterator[Found]:
        if source.is_lines and source.first and _is_event_line(source.first[0], source):
            yield from _event_lines(source)
            return
        for document in source.documents():
            try:
                yield _read(document, document.value)
            except InvalidFile as problem:
                yield problem


IMPORTERS.register(FORMAT)(OpenHandsImporter())


def _are_events(value: Json) -> bool:
    if not isinstance(value, list) or not value:
        return False
    events = [event for item in value[:5] for event in (item if isinstance(item, list) else [item])]
    return bool(events) and all(_is_event(event) for event in events)


def _is_event(value: Json) -> bool:
    """An event says what was done or seen, in one word; one of OpenHands has an id, a source or an observation."""
    if not isinstance(value, dict):
        return False
    word = value.get("action", value.get("observation"))
    return isinstance(word, str) and ("args" in value or "content" in value or "thought" in value or "extras" in value)


def _is_event_line(value: Json, source: Source) -> bool:
    return source.is_lines and _is_event(value) and "source" in as_object(value)


def _event_lines(source: Source) -> Iterator[Found]:
    """One event on each line: all of them are one run."""
    events: list[Json] = []
    for line in source.documents():
        try:
            events.append(line.value)
        except InvalidFile as problem:
            yield problem
    yield _read(Source(b"", source.file, value=events), events)


def _read(source: Source, value: Json) -> TraceRun:
    is_list = isinstance(value, list)
    whole = Fields(source, {"history": value} if is_list else value, (), "events of OpenHands")
    history = whole.items("history")
    if not _are_events(history[:1]):
        raise whole.error("expected the events of OpenHands", "history")
    story = read_history(source, history, () if is_list else ("history",))
    talk, failure = story.talk, whole.take("error")
    if failure:
        story.error = error_of(failure, "AgentError")
    if story.answer is UNSET:
        answer = talk.output
    else:
        answer = story.answer
    instruction = whole.text("instruction")
    run = talk.run(
        id=content_id(FORMAT, canonical(value)),
        format=FORMAT,
        name=whole.label("instance_id") or _issue(whole),
        agent="OpenHands",
        input=UNSET if instruction is None else instruction,
        output=answer,
        error=story.error,
        status=None if story.error is None else RunStatus.ERROR,
        metadata={name: _short(whole.take(name)) for name in _METADATA},
    )
    return labelled(run, list(_labels(whole)))


def _issue(whole: Fields) -> str:
    issue = as_object(whole.value.get("issue"))
    return "/".join(str(issue[name]) for name in ("owner", "repo", "number") if issue.get(name) is not None)


def _labels(whole: Fields) -> Iterator[Label]:
    tested = as_object(whole.value.get("test_result"))
    reports = (tested.get("report"), tested, whole.value.get("report"), whole.value)
    resolved = (as_object(report).get("resolved") for report in reports)
    found = next((flag for flag in resolved if type(flag) is bool), None)
    if found is not None:
        yield Label(name="resolved", value=found, failed=not found)
    success = whole.take("success")
    if type(success) is bool:
        yield Label(name="success", value=success, failed=not success, why=_why(whole.take("result_explanation")))


def _why(value: Json) -> str:
    return as_text(value) or "; ".join(map(as_text, value) if isinstance(value, list) else ())


def _short(value: Json) -> Json:
    """A value for the metadata; what is too long to be read there is cut."""
    if isinstance(value, str) and len(value) > _SHORT:
        return f"{value[:_SHORT]}…"
    if isinstance(value, dict):
        return {name: _short(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_short(item) for item in as_objects(value)] or value
    return value
