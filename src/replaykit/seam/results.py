"""A tool's results and exceptions: recorded, and rebuilt when they are served.

Values that cannot be rebuilt are reported, once for each tool: while recording by a warning and a note in the log, and
while serving by a note that makes a verdict uncertain.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import orjson

from replaykit.errors import RecordingWarning
from replaykit.model.events import ErrorInfo, Note
from replaykit.model.tool_errors import is_raised
from replaykit.model.unreplayable import MUTATED, UNBUILT, mutated_text, opaque_types, unbuilt_text, uncompared_text
from replaykit.model.values import Json, Raw, is_tagged, opaque_in_words, raw, raw_in, raw_plain
from replaykit.seam.failures import came_from_outside, describe, raise_again
from replaykit.seam.own_code import Function, frames_from, is_ours, module_name
from replaykit.seam.rebuild import Rebuilder, return_hint, stream_item_hint, stream_return_hint
from replaykit.seam.scope import CallAnswer, RunSession, current
from replaykit.seam.shared_parts import has_shared_parts, shared_form

OPAQUE = b'{"$opaque":'
RESULT, ITEM, END = "result", "item", "end"
"""Places of values: what a function returns, and what a generator yields and returns."""


class ToolValues:
    """The values of one tool, with the classes that its function may use."""

    def __init__(self, name: str, fn: Function | None) -> None:
        self._name = name
        self._fn = fn
        self._checked: set[type] = set()

    @cached_property
    def hints(self) -> dict[str, Any]:
        """The annotations of a function's result, and of a generator's items and result."""
        if self._fn is None:
            return dict.fromkeys((RESULT, ITEM, END))
        hint = return_hint(self._fn)
        return {RESULT: hint, ITEM: stream_item_hint(hint), END: stream_return_hint(hint)}

    @property
    def namespace(self) -> Mapping[str, Any]:
        """The names that the function can use: its module's globals, and its closure."""
        if self._fn is None:
            return {}
        return namespace_of(self._fn)

    def keep(self, value: Any, place: str = RESULT) -> Raw:
        """Return a result, or an item or the end of a stream, in recorded form."""
        text = raw_plain(value) or self._keep_object(value, self.hints[place])
        if has_shared_parts(value):
            return Raw(orjson.dumps(shared_form(orjson.loads(bytes(text)), value)))
        return text

    def give(self, text: Raw, place: str = RESULT) -> Any:
        """Rebuild a recorded value."""
        data = bytes(text)
        if not is_tagged(data):
            return orjson.loads(data)
        return self._rebuilt(lambda rebuilder: rebuilder.value(orjson.loads(data), self.hints[place]))

    def answer(self, outcome: CallAnswer) -> Any:
        """Return the recorded result, or raise the recorded exception."""
        if outcome.error is not None and is_raised(outcome):
            raise_again(self.error(outcome.error))
        return self.give(outcome.result_json)

    def error(self, info: ErrorInfo) -> BaseException:
        """Rebuild a recorded exception."""
        error: BaseException = self._rebuilt(lambda rebuilder: rebuilder.error(info))
        return error

    def check_error(self, error: BaseException) -> None:
        """Report a raised exception that cannot be rebuilt."""
        kind = type(error)
        scope = current()
        if scope is None or kind in self._checked or (UNBUILT, self._name) in scope.session.reported:
            return
        if came_from_outside(error):
            return
        rebuilder = Rebuilder(self.namespace)
        rebuilder.error(describe(error))
        self._checked.add(kind)
        if rebuilder.unbuilt:
            report_unbuilt(scope.session, self._name, rebuilder.unbuilt, "raised")

    def _keep_object(self, result: Any, hint: Any) -> Raw:
        from replaykit.seam.forms import ResultForms  # noqa: PLC0415 (slow to import; most results are plain)

        forms = ResultForms()
        text = raw_in(result, forms)
        scope = current()
        if scope is None or (UNBUILT, self._name) in scope.session.reported:
            return text
        if OPAQUE in bytes(text) or not self._checked.issuperset(forms.classes):
            rebuilder = Rebuilder(self.namespace)
            rebuilder.value(orjson.loads(bytes(text)), hint)
            self._checked |= forms.classes
            if rebuilder.unbuilt:
                report_unbuilt(scope.session, self._name, rebuilder.unbuilt, "returned")
        return text

    def _rebuilt(self, rebuild: Callable[[Rebuilder], Any]) -> Any:
        report = _uncertain_when_used(self._name)
        rebuilder = Rebuilder(self.namespace, report)
        value = rebuild(rebuilder)
        for type_name in rebuilder.unbuilt:
            report(type_name)
        return value


def rebuilt(result: Any, fn: Function) -> Any:
    """Return what a replay makes of a result of this function."""
    from replaykit.seam.forms import ResultForms  # noqa: PLC0415 (slow to import; most results are plain)

    values = ToolValues("", fn)
    text = raw_in(result, ResultForms())
    return Rebuilder(values.namespace).value(orjson.loads(bytes(text)), values.hints[RESULT])


def report_unbuilt(session: RunSession, tool: str, types: list[str], verb: str) -> None:
    """Report, once for each tool, that a replay cannot rebuild a recorded value."""
    names = list(dict.fromkeys(types))
    _report(session, UNBUILT, tool, unbuilt_text(tool, names, verb), {"types": names, "what": verb})


def report_uncompared(session: RunSession, tool: str, arguments: bytes) -> None:
    """Report, once for each tool, that a replay cannot compare an argument."""
    names = opaque_types(orjson.loads(arguments))
    if names:
        _report(session, UNBUILT, tool, uncompared_text(tool, names), {"types": names, "what": "was called with"})


def report_mutated(session: RunSession, tool: str, names: Sequence[str]) -> None:
    """Report, once for each tool, that it changes its arguments."""
    if (MUTATED, tool) in session.reported:
        return  # before the text is written: this is asked in every call of such a tool
    _report(session, MUTATED, tool, mutated_text(tool, names), {"arguments": list(names)})


def _report(session: RunSession, what: str, tool: str, text: str, content: Json) -> None:
    if (what, tool) in session.reported:
        return
    session.reported.add((what, tool))
    session.keep(Note, name=what, content_json=raw({"tool": tool, "text": text, **content}))
    if any(log is getattr(warnings._showwarnmsg_impl, "__self__", None) for log, _ in session.warning_logs):  # type: ignore[attr-defined]
        print(f"replaykit: {text}", file=sys.stderr)  # not as a warning, which the agent itself would catch
        return
    warn_user(text)


def warn_user(text: str) -> None:
    """Issue a warning at the line of the program that led here."""
    level = 1
    for frame in frames_from(sys._getframe()):
        if not is_ours(frame) and module_name(frame) != "contextlib":
            break
        level += 1
    try:
        warnings.warn(text, RecordingWarning, stacklevel=level)
    except RecordingWarning:  # turned into an error by a filter; a recording must not change what the agent does
        print(f"replaykit: {text}", file=sys.stderr)


def _uncertain_when_used(tool: str) -> Callable[[str], None]:
    """Return a function that notes that a replay served something that cannot be rebuilt."""
    scope = current()

    def report(type_name: str) -> None:
        if scope is None or (type_name, tool) in scope.session.reported:
            return
        session = scope.session
        session.reported.add((type_name, tool))
        text = f"`{tool}` answered with {opaque_in_words(type_name)}, which cannot be rebuilt"
        session.note_deviation("unbuilt", text, tool)

    return report


def namespace_of(fn: Any) -> Mapping[str, Any]:
    """Return the names that a function can use: its module's globals, and its closure."""
    plain = inspect.unwrap(fn)
    names: dict[str, Any] = getattr(plain, "__globals__", {})
    cells = getattr(plain, "__closure__", None)
    if not cells:
        return names
    closed: dict[str, Any] = {}
    for name, cell in zip(plain.__code__.co_freevars, cells, strict=True):
        try:
            closed[name] = cell.cell_contents
        except ValueError:
            continue  # not set yet
    return ChainMap(closed, names)
