"""A sample of an Inspect log, in one of its epochs, as a run."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.formats.core.fields import Fields, time_in
from replaykit.formats.core.labels import Label, labelled
from replaykit.formats.core.talk import UNSET, Talk, content_id
from replaykit.formats.core.totals import added, with_total
from replaykit.formats.inspect.events import InspectConversation, sample_error
from replaykit.formats.inspect.messages import REMOVED, SampleAttachments, error_in, usage_in
from replaykit.model.events import ErrorInfo
from replaykit.model.matching import ToolErrors
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Json, canonical
from replaykit.wire.json_fields import as_object, as_objects, as_text

FORMAT = "inspect"
ADVICE = "Inspect keeps the images of its messages only with --log-images."
_LIMITS = {"time": RunStatus.TIMEOUT, "working": RunStatus.TIMEOUT, "operator": RunStatus.CANCELLED}
_FAILED = ("I", "N", "incorrect", "noanswer")
_LITERAL = ("includes", "match", "exact")
"""Scorers for which the target is what a good answer holds, word for word."""
_ANSWERS = ("choice", "answer", "pattern", "math")
"""Scorers that compare the answer, which they take out of what was said, with the target."""
_GRADED = ("model_graded_qa", "model_graded_fact", "f1")
"""Scorers for which the target is a reference: another wording is as good."""
_METADATA = ("epoch", "target", "choices", "metadata", "model_usage", "total_time", "working_time", "limit")
_OF_EVAL = ("eval_id", "run_id", "task_version", "model")


def read_sample(header: dict[str, Json], sample: Fields) -> TraceRun:
    """The run of a sample; `header` is the log without its samples."""
    evaluation = as_object(header.get("eval"))
    attachments = SampleAttachments(sample.value, lacks_images=REMOVED in sample.source.text)
    talk = _build_talk(sample, attachments)
    output = _output(sample, attachments)
    status, error = _ending(header, sample, output)
    task, id = as_text(evaluation.get("task")), sample.label("id") or ""
    epoch = sample.take("epoch")
    name = f"{task}/{id}" if id else task
    times = [time_in(event.get("timestamp")) for event in as_objects(sample.take("events"))]
    run = talk.run(
        id=_id(evaluation, sample, id, epoch),
        format=FORMAT,
        name=f"{name} (epoch {epoch})" if type(epoch) is int and epoch > 1 else name,
        agent=as_text(evaluation.get("solver")) or task,
        input=_input(sample, attachments),
        output=UNSET if error is not None else output,
        status=status,
        error=error,
        started_at=time_in(sample.take("started_at")) or min(filter(None, times), default=0.0),
        ended_at=time_in(sample.take("completed_at")) or max(times, default=0.0) or None,
        tags=tuple(filter(None, map(as_text, _items(evaluation.get("tags"))))),
        metadata=_metadata(evaluation, sample, id),
        advice=[ADVICE] if attachments.lacks_images else (),
    )
    used = as_object(sample.take("model_usage")).values()
    run = with_total(run, added(filter(None, map(usage_in, used))))
    return labelled(run, list(_labels(sample, output)))


def _build_talk(sample: Fields, attachments: SampleAttachments) -> Talk:
    talk = Talk()
    events = sample.items("events")
    is_told = not any(as_object(event).get("event") == "model" for event in events)
    if is_told:
        model = as_text(as_object(sample.take("output")).get("model"))
        for message in as_objects(sample.items("messages")):
            readable = attachments.read_message(message)
            details: dict[str, Json] = {}
            if readable["role"] == "assistant":
                details = {"model": as_text(message.get("model")) or model}
            elif readable["role"] == "tool":
                details = {"error": error_in(message), "ending": ToolErrors.RAISED}
            talk.hear(readable, **details)
    own_error = sample.value.get("error") is not None
    InspectConversation(talk, attachments, is_told=is_told).tell(
        event for event in events if not (own_error and as_object(event).get("event") == "error")
    )
    return talk


def _id(evaluation: dict[str, Json], sample: Fields, id: str, epoch: Json) -> str:
    log = next((text for name in ("eval_id", "run_id", "task_id") if (text := as_text(evaluation.get(name)))), "")
    own = sample.text("uuid") or ("-".join((log, id, str(epoch))) if log and id else "")
    return own or content_id(FORMAT, canonical(sample.value))


def _input(sample: Fields, attachments: SampleAttachments) -> Json:
    sample_input = sample.take("input")
    if isinstance(sample_input, str):
        return attachments.whole(sample_input)
    messages = [attachments.read_message(message) for message in as_objects(sample_input)]
    if len(messages) == 1:
        return messages[0]["content"]
    return messages or UNSET


def _output(sample: Fields, attachments: SampleAttachments) -> Json:
    output = as_object(sample.take("output"))
    answer = attachments.answer(output)
    answer_text = attachments.whole(as_text(output.get("completion"))) or (answer.content if answer else None)
    return answer_text or UNSET


def _ending(header: dict[str, Json], sample: Fields, output: Json) -> tuple[RunStatus, ErrorInfo | None]:
    """How the sample ended: a log that went well may hold samples that did not."""
    error = sample.take("error")
    if error is not None:
        return RunStatus.ERROR, sample_error(error)
    limit = as_object(sample.take("limit"))
    if limit:
        kind = as_text(limit.get("type"))
        message = f"the {kind} limit of {limit.get('limit')} was reached"
        return _LIMITS.get(kind, RunStatus.ERROR), ErrorInfo(type="LimitExceededError", message=message)
    if output is not UNSET or sample.value.get("scores"):
        return RunStatus.SUCCESS, None
    word = as_text(header.get("status"))
    if word == "cancelled":
        return RunStatus.CANCELLED, ErrorInfo(type="Cancelled", message="the evaluation was cancelled")
    if word == "error":
        return RunStatus.ERROR, sample_error(header.get("error"))
    return (RunStatus.RUNNING if word == "started" else RunStatus.SUCCESS), None


def _metadata(evaluation: dict[str, Json], sample: Fields, id: str) -> dict[str, Json]:
    metadata = {"sample": id} | {name: sample.take(name) for name in _METADATA}
    retries = [as_text(as_object(error).get("message")) for error in _items(sample.take("error_retries"))]
    return metadata | {name: evaluation.get(name) for name in _OF_EVAL} | {"error_retries": retries}


def _labels(sample: Fields, output: Json) -> Iterator[Label]:
    scores = as_object(sample.take("scores")) or _older_scores(sample)
    target = sample.take("target")
    for name, score in scores.items():
        if isinstance(score, dict):
            value = as_object(score).get("value")
        else:
            value = score
        if isinstance(target, str) and _is_bad(value):
            expected = target.strip()
        else:
            expected = ""
        missing = bool(expected) and expected.lower() not in str(output).lower()
        grader = name.rpartition("/")[2]
        yield Label(
            name=name,
            value=value,
            failed=_is_bad(value),
            why=as_text(as_object(score).get("explanation")),
            expected_output=(expected,) if missing and grader in _LITERAL else (),
            expected_answer=expected if grader in _ANSWERS else "",
            criteria=(f"The response agrees with the reference answer: {expected}",)
            if expected and grader in _GRADED
            else (),
        )


def _older_scores(sample: Fields) -> dict[str, Json]:
    """The one score of an old log; else those that the events tell."""
    score = sample.take("score")
    if isinstance(score, dict):
        return {"score": score}
    score_events = [event for event in as_objects(sample.take("events")) if event.get("event") == "score"]
    final = [event for event in score_events if event.get("intermediate") is not True]
    names = [as_text(event.get("scorer")) or "score" for event in final]
    return {
        name if names.count(name) == 1 else f"{name} {index + 1}": event.get("score")
        for index, (name, event) in enumerate(zip(names, final, strict=True))
    }


def _is_bad(value: Json) -> bool:
    """True for what Inspect counts as nothing: incorrect, no answer, 0; of several values, all."""
    if isinstance(value, dict | list):
        if isinstance(value, dict):
            items = list(value.values())
        else:
            items = value
        return bool(items) and all(map(_is_bad, items))
    if isinstance(value, str):
        return value in _FAILED
    return isinstance(value, int | float) and value == 0


def _items(value: Json) -> list[Json]:
    if isinstance(value, list):
        return value
    return []
