"""Assertions of redacted cases: both sides are said the same way before they are compared.

A case holds placeholders where a candidate may have the values themselves, from its code or its environment. The run of
a program holds placeholders where a person wrote a value into a case. Nothing else is touched: a pattern that looks for
an address finds it in a run that was never written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from replaykit.model.run import TraceRun, decode_run, encode_run
from replaykit.model.values import Json, decode, encode
from replaykit.redaction.placeholders import blurred, canonical, holds_placeholder

if TYPE_CHECKING:
    from replaykit.redaction.project import ProjectRedactor


def redact_alike(value: Json, run: TraceRun) -> tuple[Json, TraceRun]:
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


def runs_alike(recorded: TraceRun, now: TraceRun) -> tuple[TraceRun, TraceRun]:
    """A recorded run and another one, as they can be compared; the same ones where nothing is redacted."""
    text = encode_run(recorded)
    if not holds_placeholder(text):
        return recorded, now
    spelled, shown = _as_recorded(now, with_forms=False)
    return decode_run(spelled(text)), shown


def _redacted(value: Json, text: bytes, run: TraceRun) -> tuple[Json, TraceRun]:
    spelled, shown = _as_recorded(run, with_forms=_TAG not in text)
    return decode(spelled(text)), shown


_TAG = b"<"
"""With it placeholders begin that have no form, as in cases of older versions."""


def _as_recorded(run: TraceRun, *, with_forms: bool) -> tuple[Callable[[bytes], bytes], TraceRun]:
    """The run as it would have been recorded here, and how what it is compared with has to be spelled.

    Without `with_forms`, placeholders of every version are spelled alike. Where the run holds values and the project
    has no key, only kinds can be compared.
    """
    from replaykit.redaction.events import Door  # noqa: PLC0415 (few cases hold anything redacted)

    redactor = _redactor()
    redactor.has_forms = with_forms
    before = encode_run(run)
    after = encode_run(Door(redactor).run(run))
    spelled: Callable[[bytes], bytes] = bytes if with_forms else canonical
    if after != before and not redactor.has_key:
        spelled = blurred
    return spelled, decode_run(spelled(after))


def _redactor() -> ProjectRedactor:
    from replaykit.config import default_store_path  # noqa: PLC0415
    from replaykit.redaction.project import ProjectRedactor  # noqa: PLC0415 (few cases hold anything redacted)

    return ProjectRedactor(default_store_path(), foreign=True)
