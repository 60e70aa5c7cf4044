"""Assertions of redacted cases: both sides are said the same way before they are compared.

A case holds placeholders where a candidate may have the values themselves, from its code or its environment. The run of
a program holds placeholders where a person wrote a value into a case. Nothing else is touched: a pattern that looks for
an address finds it in a run that was never written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replaykit.model.run import TraceRun, decode_run, encode_run
from replaykit.model.values import Json, decode, encode
from replaykit.redaction.placeholders import blurred

if TYPE_CHECKING:
    from replaykit.redaction.project import ProjectRedactor


def said_alike(value: Json, run: TraceRun) -> tuple[Json, TraceRun]:
    """The value of an assertion and the run, as they can be compared; the same ones where nothing is redacted."""
    text = encode(value)
    if holds_placeholder(text):
        return _redacted(value, text, run)
    if len(text) < _SHORTEST:
        return value, run
    shown = _redactor().raw(text)
    if shown is text or not holds_placeholder(encode_run(run)):
        return value, run
    return _redacted(decode(shown), shown, run)


_SHORTEST = 6  # nothing that is redacted is shorter, and most assertions are a number or a word


def holds_placeholder(text: bytes) -> bool:
    """True when something was redacted in the text."""
    return b"<" in text and blurred(text) != text


def runs_alike(recorded: TraceRun, now: TraceRun) -> tuple[TraceRun, TraceRun]:
    """A recorded run and another one, as they can be compared; the same ones where nothing is redacted."""
    text = encode_run(recorded)
    if not holds_placeholder(text):
        return recorded, now
    shown, has_key = _as_recorded(now)
    return (recorded, shown) if has_key else (decode_run(blurred(text)), shown)


def _redacted(value: Json, text: bytes, run: TraceRun) -> tuple[Json, TraceRun]:
    shown, has_key = _as_recorded(run)
    return (value, shown) if has_key else (decode(blurred(text)), shown)


def _as_recorded(run: TraceRun) -> tuple[TraceRun, bool]:
    """The run as it would have been recorded here. Without the key only kinds can be compared: the rest is blurred."""
    from replaykit.redaction.events import Door  # noqa: PLC0415 (few cases hold anything redacted)

    redactor = _redactor()
    run = Door(redactor).run(run)
    return (run, True) if redactor.has_key else (decode_run(blurred(encode_run(run))), False)


def _redactor() -> ProjectRedactor:
    from replaykit.config import default_store_path  # noqa: PLC0415
    from replaykit.redaction.project import ProjectRedactor  # noqa: PLC0415 (few cases hold anything redacted)

    return ProjectRedactor(default_store_path(), foreign=True)
