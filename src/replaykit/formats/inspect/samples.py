"""Turn a sample of an Inspect log, in one of its epochs, into a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from msgspec import Struct

from replaykit.formats.core.fields import Fields, error_of, time_in
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.replayability import Lack, added, with_total
from replaykit.formats.core.talk import UNSET, Talk, Turn, content_id
from replaykit.formats.inspect.messages import REMOVED, SampleAttachments, error_in, plain, usage_in
from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, JsonObject, canonical, encode
from replaykit.wire.json_fields import (
    as_list,
    as_object,
    as_objects,
    as_text,
    list_in,
    object_in,
    objects_in,
    pick,
    text_in,
    texts_in,
    without,
    without_nulls,
)
from replaykit.wire.model_calls import ToolUse

FORMAT = "inspect"
ADVICE = "Inspect keeps the images of its messages only with --log-images."
_LIMITS = {"time": RunStatus.TIMEOUT, "working": RunStatus.TIMEOUT, "operator": RunStatus.CANCELLED}
_FAILED = ("I", "N", "incorrect", "noanswer")
_LITERAL = ("includes", "match", "exact")  # scorers that look for the target in the answer, word for word
# Scorers that extract an answer and compare it with the target.
_ANSWERS = ("choice", "answer", "pattern", "math")
# Scorers for which the target is a reference that other wordings match, too.
_GRADED = ("model_graded_qa", "model_graded_fact", "f1")
_METADATA = words_of("epoch target choices metadata model_usage total_time working_time limit")
_OF_EVAL = ("eval_id", "run_id", "task_version", "model")


def read_sample(header: JsonObject, sample: Fields) -> TraceRun:
    """Return the run of a sample; `header` is the log without its samples."""
    evaluation = object_in(header, "eval")
    attachments = SampleAttachments(sample.value, lacks_images=REMOVED in sample.source.text)
    talk = _build_talk(sample, attachments)
    output = answer = _output(sample, attachments)
    status, error = _ending(header, sample, output)
    if error is not None:
        answer = UNSET
    task, id, epoch = text_in(evaluation, "task"), sample.label("id") or "", sample.take("epoch")
    name = f"{task}/{id}" if id else task
    if type(epoch) is int and epoch > 1:
        name += f" (epoch {epoch})"
    times = [time_in(event.get("timestamp")) for event in as_objects(sample.take("events"))]
    run = talk.run(
        id=_id(evaluation, sample, id, epoch),
        format=FORMAT,
        name=name,
        agent=text_in(evaluation, "solver") or task,
        input=_input(sample, attachments),
        output=answer,
        status=status,
        error=error,
        started_at=time_in(sample.take("started_at")) or min(filter(None, times), default=0.0),
        ended_at=time_in(sample.take("completed_at")) or max(times, default=0.0) or None,
        tags=texts_in(evaluation.get("tags")),
        metadata=_metadata(evaluation, sample, id),
        advice=[ADVICE] if attachments.lacks_images else (),
    )
    used = as_object(sample.take("model_usage")).values()
    run = with_total(run, added(filter(None, map(usage_in, used))))
    return labelled(run, list(_labels(sample, output)))


def _build_talk(sample: Fields, attachments: SampleAttachments) -> Talk:
    talk = Talk()
    events = as_objects(sample.items("events"))
    kinds = {text_in(event, "event") for event in events}
    if "model" not in kinds:
        model = text_in(sample.take("output"), "model")
        for message in as_objects(sample.items("messages")):
            readable = attachments.read_message(message)
            details: JsonObject = {}
            if readable["role"] == "assistant":
                details = {"model": text_in(message, "model") or model}
            elif readable["role"] == "tool":
                details = {"error": error_in(message), "ending": ToolErrors.RAISED}
            talk.hear(readable, **details)
    if sample.value.get("error") is not None:  # the run's own error repeats this event
        events = [event for event in events if event.get("event") != "error"]
    InspectConversation(talk, attachments, has_calls="model" not in kinds).tell(events)
    return talk


def _id(evaluation: JsonObject, sample: Fields, id: str, epoch: Json) -> str:
    log, own = text_in(evaluation, "eval_id", "run_id", "task_id"), sample.text("uuid")
    if not own and log and id:
        own = "-".join((log, id, str(epoch)))
    return own or content_id(FORMAT, canonical(sample.value))


def _input(sample: Fields, attachments: SampleAttachments) -> Json:
    sample_input = sample.take("input")
    if isinstance(sample_input, str):
        return attachments.whole(sample_input)
    messages = list(map(attachments.read_message, as_objects(sample_input)))
    if len(messages) == 1:
        return messages[0]["content"]
    return messages or UNSET


def _output(sample: Fields, attachments: SampleAttachments) -> Json:
    output = as_object(sample.take("output"))
    answer = attachments.answer(output)
    answer_text = attachments.whole(text_in(output, "completion")) or (answer.content if answer else None)
    return answer_text or UNSET


def _ending(header: JsonObject, sample: Fields, output: Json) -> tuple[RunStatus, ErrorInfo | None]:
    """Return the status and error of a sample; a successful log may hold failed samples."""
    error = sample.take("error")
    if error is not None:
        return RunStatus.ERROR, sample_error(error)
    limit = as_object(sample.take("limit"))
    if limit:
        kind = text_in(limit, "type")
        message = f"the {kind} limit of {limit.get('limit')} was reached"
        return _LIMITS.get(kind, RunStatus.ERROR), ErrorInfo(type="LimitExceededError", message=message)
    if output is not UNSET or sample.value.get("scores"):
        return RunStatus.SUCCESS, None
    word = text_in(header, "status")
    if word == "cancelled":
        return RunStatus.CANCELLED, ErrorInfo(type="Cancelled", message="the evaluation was cancelled")
    if word == "error":
        return RunStatus.ERROR, sample_error(header.get("error"))
    return (RunStatus.RUNNING if word == "started" else RunStatus.SUCCESS), None


def _metadata(evaluation: JsonObject, sample: Fields, id: str) -> JsonObject:
    retries = [text_in(error, "message") for error in as_list(sample.take("error_retries"))]
    metadata = {"sample": id, **pick(sample.value, _METADATA), **pick(evaluation, _OF_EVAL)}
    return metadata | {"error_retries": retries}


def _labels(sample: Fields, output: Json) -> Iterator[Label]:
    scores = as_object(sample.take("scores")) or _older_scores(sample)
    target = as_text(sample.take("target")).strip()
    for name, score in scores.items():
        value = score
        if isinstance(score, dict):
            value = score.get("value")
        grader, failed = name.rpartition("/")[2], _is_bad(value)
        expected: JsonObject = {}
        if failed and target:
            if grader in _LITERAL and target.lower() not in str(output).lower():
                expected["expected_output"] = (target,)
            elif grader in _ANSWERS:
                expected["expected_answer"] = target
            elif grader in _GRADED:
                expected["criteria"] = (f"The response agrees with the reference answer: {target}",)
        yield Label(name=name, value=value, failed=failed, why=text_in(score, "explanation"), **expected)


def _older_scores(sample: Fields) -> JsonObject:
    """Return the single score of an old log, or else the scores in the events."""
    score = sample.take("score")
    if isinstance(score, dict):
        return {"score": score}
    final: list[tuple[str, Json]] = []
    for event in as_objects(sample.take("events")):
        if event.get("event") == "score" and event.get("intermediate") is not True:
            final.append((text_in(event, "scorer") or "score", event.get("score")))
    names = [name for name, _score in final]
    scores: JsonObject = {}
    for number, (name, stated_score) in enumerate(final, 1):
        if names.count(name) > 1:
            name = f"{name} {number}"
        scores[name] = stated_score
    return scores


def _is_bad(value: Json) -> bool:
    """Return whether Inspect scores this as nothing: incorrect, no answer, 0; of several values, all of them."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return bool(value) and all(map(_is_bad, value))
    if isinstance(value, str):
        return value in _FAILED
    return isinstance(value, int | float) and value == 0


_SCORING = ("scorer", "scorers")
_STEPS = ("solver", "agent", "subtask")
_SILENT = ("sample_init", "state", "span_end", "score")  # events that repeat what others say
_COMMON = words_of("event timestamp working_start span_id uuid pending events call input_ansi")
_SHORT = 1000
_MAX_DEPTH = 20


class _EventPlace(Struct, kw_only=True):
    """The place of an event in its sample."""

    talk: Talk
    step: str | None = None
    is_scoring: bool = False

    def inner(self, kind: str, name: str) -> _EventPlace:
        return _EventPlace(
            talk=self.talk,
            step=name if kind in _STEPS and name else self.step,
            is_scoring=self.is_scoring or kind in _SCORING,
        )


class InspectConversation:
    """Adds the events of one sample to a talk."""

    def __init__(self, talk: Talk, attachments: SampleAttachments, *, has_calls: bool) -> None:
        self._attachments = attachments
        self._has_calls = has_calls  # true if the sample's messages supplied the calls already
        self._outside = _EventPlace(talk=talk)
        self._spans: dict[str, _EventPlace] = {}
        self._steps: list[_EventPlace] = []
        # Spans of tools whose event is still to come, by outer span and name.
        self._tools: dict[tuple[str, str], list[_EventPlace]] = {}

    def tell(self, events: Iterable[Json], depth: int = 0) -> None:
        for event in events:
            if isinstance(event, dict):
                self._event(event, depth)

    def _event(self, event: JsonObject, depth: int) -> None:
        kind, place = text_in(event, "event"), self._place(text_in(event, "span_id"))
        if kind == "span_begin":
            self._begin(event)
        elif kind == "step":
            self._step(event)
        elif kind in ("model", "tool") and place.is_scoring:
            self._note(event, place)
        elif kind in ("model", "tool") and self._has_calls:
            return
        elif kind == "model":
            self._model(event, place)
        elif kind == "tool":
            self._tool(event, place, depth)
        elif kind == "error":
            place.talk.fails(sample_error(event.get("error")), at=time_in(event.get("timestamp")), step=place.step)
        elif kind not in _SILENT or event.get("intermediate") is True:
            self._note(event, place)
            self._inside(event, place, depth)

    def _place(self, span: str) -> _EventPlace:
        return self._spans.get(span) or (self._steps[-1] if self._steps else self._outside)

    def _begin(self, event: JsonObject) -> None:
        kind, name, above = (text_in(event, key) for key in ("type", "name", "parent_id"))
        place = self._place(above).inner(kind, name)
        self._spans[text_in(event, "id")] = place
        if kind == "tool":
            self._tools.setdefault((above, name), []).append(place)

    def _step(self, event: JsonObject) -> None:
        """Begin or end a step. An end closes the last step, whatever its name."""
        if event.get("action") == "begin":
            self._steps.append(self._place("").inner(text_in(event, "type"), text_in(event, "name")))
        elif self._steps:
            self._steps.pop()

    def _model(self, event: JsonObject, place: _EventPlace) -> None:
        output, talk = object_in(event, "output"), place.talk
        messages = self._attachments.request_messages(event)
        if messages:
            talk.catches_up(messages)
        talk.offers(self._attachments.whole(event.get("tools")))
        at, duration_s = _times(event, output)
        error = event.get("error") or output.get("error")
        choices = objects_in(output, "choices")
        turn = talk.answers(
            self._attachments.answer(output),
            model=text_in(event, "model") or text_in(output, "model"),
            usage=usage_in(output.get("usage")),
            finish_reason=text_in(choices[0], "stop_reason") or None if choices else None,
            error=sample_error(error) if error else None,
            parameters=_parameters(event),
            at=at,
            duration_s=duration_s,
            step=place.step,
        )
        if self._attachments.lacks_images and any(REMOVED in encode(message) for message in messages):
            turn.lacks.add(Lack.HIDDEN)

    def _tool(self, event: JsonObject, place: _EventPlace, depth: int) -> None:
        id, name, talk = text_in(event, "id"), text_in(event, "function"), place.talk
        at, duration_s = _times(event, {})
        turn = talk.turn_of(id) if id else None
        if turn is None:
            arguments = self._attachments.whole(event.get("arguments"))
            turn = talk.calls(ToolUse(id=id, name=name, arguments=arguments or {}), at=at, step=place.step)
        span = self._tools.get((text_in(event, "span_id"), name))
        if span:
            span.pop(0).talk = talk.inside(turn)
        self._inside(event, place, depth, turn)
        if event.get("pending") is not True:
            result, error = plain(self._attachments.whole(event.get("result"))), error_in(event)
            ended = at + duration_s if at else 0.0
            talk.returns(
                result,
                call_id=id,
                name=name,
                failed=False,
                error=error,
                ending=ToolErrors.RAISED,  # Inspect catches exceptions of tools, and names them
                at=ended,
                duration_s=duration_s,
            )

    def _inside(self, event: JsonObject, place: _EventPlace, depth: int, turn: Turn | None = None) -> None:
        """Add the events that an older log nests in another event."""
        inner = list_in(event, "events")
        if not inner or depth >= _MAX_DEPTH:
            return
        outside, steps = self._outside, self._steps
        talk = place.talk
        if turn is not None:
            talk = talk.inside(turn)
        self._outside, self._steps = _EventPlace(talk=talk, step=place.step, is_scoring=place.is_scoring), []
        self.tell(inner, depth + 1)
        self._outside, self._steps = outside, steps

    def _note(self, event: JsonObject, place: _EventPlace) -> None:
        kind = text_in(event, "event")
        content = _short(self._attachments.whole(without(event, *_COMMON)))
        name = f"scorer {kind}" if place.is_scoring else kind
        place.talk.notes(name or "event", content, at=time_in(event.get("timestamp")), step=place.step)


def sample_error(value: Json) -> ErrorInfo:
    """Return Inspect's error: a text, or the repr of an exception, with its traceback."""
    error = as_object(value) or {"message": value}
    text, traceback = text_in(error, "message"), text_in(error, "traceback") or None
    name, opened, rest = text.partition("(")
    if opened and name.isidentifier() and text.endswith(")"):
        return ErrorInfo(type=name, message=_unquoted(rest[:-1]), traceback=traceback)
    plain_error = error_of(text)
    return ErrorInfo(type=plain_error.type, message=plain_error.message, traceback=traceback)


def _unquoted(text: str) -> str:
    text = text.removesuffix(",")
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "'\""
    if quoted:
        return text[1:-1]
    return text


def _times(event: JsonObject, output: JsonObject) -> tuple[float, float]:
    at, ended, took = time_in(event.get("timestamp")), time_in(event.get("completed")), output.get("time")
    if at and ended:
        return at, max(0.0, ended - at)
    return at, max(0.0, took) if isinstance(took, float) and math.isfinite(took) else 0.0


def _parameters(event: JsonObject) -> JsonObject:
    config = without_nulls(object_in(event, "config"))
    if event.get("tools"):
        config |= pick(event, ("tool_choice",))
    return config


def _short(value: Json, depth: int = 0) -> Json:
    if isinstance(value, str) and len(value) > _SHORT:
        return value[:_SHORT].rstrip() + "…"
    if isinstance(value, list):
        items = value[:_SHORT] if depth < _MAX_DEPTH else []
        return [_short(item, depth + 1) for item in items]
    if isinstance(value, dict):
        members = value if depth < _MAX_DEPTH else {}
        return {key: _short(item, depth + 1) for key, item in members.items()}
    return value
