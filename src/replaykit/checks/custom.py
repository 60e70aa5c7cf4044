"""Assertions in Python: registered functions, which cases call by name.

A name in a file never imports anything: functions have to be registered in Python before a case is checked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from replaykit.arguments import checked
from replaykit.checks.assertions import Assertion
from replaykit.checks.reading import last_seq, shown
from replaykit.checks.rule import BadAssertion, CannotTell, Rule, Seen, register
from replaykit.errors import UsageError, nearest
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.registry import Registry

REGISTER_HINT = (
    "Register it with rk.register_check in a plugin of replaykit.yaml, or in the code that replays; or in a package: "
    "entry point replaykit.checks."
)
Check: TypeAlias = Callable[..., bool | str | Seen]
"""Takes the run and named parameters. Returns True, False, or the reason why it does not hold."""

CHECKS: Registry[Check] = Registry("check")
"""The functions that `custom.python` may name; packages add theirs through the entry point group `replaykit.checks`."""


@checked('rk.register_check("short", is_short)')
def register_check(name: str, fn: Check) -> None:
    """Let cases call this function as a check: `custom.python: {check: NAME, …}`.

    It is given the run, and the other parameters by name. It returns True, False, a text that says why not, or a
    `Seen`.

    >>> rk.register_check("short", lambda run, most=280: len(str(run.output)) <= most)
    """
    if not isinstance(name, str) or not name.strip() or not callable(fn):
        raise UsageError(f"register_check takes a name and a function, got {name!r} and {fn!r}")
    CHECKS.register(name)(fn)


@register("custom.python")
class CustomPython(Rule, frozen=True):
    """Calls a function of your own, registered in Python with `rk.register_check(name, fn)`.

    It is called with the run and all parameters but `check`, by name, and returns true or false, a text that says why
    the check fails, or a `Seen`. A name in a case never imports anything: functions are registered by modules under
    `plugins` in replaykit.yaml, and by packages with the entry point group `replaykit.checks`. If the function is not
    registered, or raises, the verdict is `inconclusive`.
    """

    plain = "check_"
    notes = {"check": "the function's name; a plain text sets this", "…": "what it is given"}
    examples = (
        "custom.python: charged_once",
        "custom.python: {check: total_below, limit: 50}",
    )
    check_: str
    parameters: JsonObject = {}

    @classmethod
    def parse(cls, value: Json) -> Rule:
        parameters = dict(value) if isinstance(value, dict) else {"check": value}
        name = parameters.pop("check", None)
        if not isinstance(name, str) or not name.strip():
            raise BadAssertion("expected the name of a check, as in `custom.python: {check: charged_once}`")
        for key in parameters:
            if not isinstance(key, str) or not key.isidentifier():
                raise BadAssertion(f"the parameter {key!r} is not the name of an argument", (str(key),))
        return cls(check_=name, parameters=parameters)

    @classmethod
    def schema(cls) -> JsonObject:
        schema = {"type": "object", "properties": {"check": {"type": "string"}}, "required": ["check"]}
        return {"anyOf": [{"type": "string"}, schema]}

    def seen_in(self, run: TraceRun) -> Seen:
        result = _call(self.check_, run, self.parameters)
        if isinstance(result, Seen):
            return result
        if not isinstance(result, bool | str):
            raise CannotTell(f"the check {self.check_!r} returned {shown(str(result))}: expected true, false or a text")
        arguments_text = f"({shown(self.parameters)})" if self.parameters else ""
        why = result
        if not isinstance(why, str):
            why = "it holds" if result else "it does not hold"
        return Seen(
            holds=result is True,
            text=f"Check {self.check_!r}: {why}",
            expected=f"the check {self.check_}{arguments_text} to hold",
            actual=why,
            seq=last_seq(run),
        )


def unregistered_in(assertions: Iterable[Assertion]) -> Iterator[tuple[int, str]]:
    """Yield the names of unregistered checks, with the index of their assertion."""
    for index, assertion in enumerate(assertions):
        for name in _named(assertion):
            if name not in CHECKS:
                yield index, name


def unregistered_text(name: str) -> str:
    """Return the message for an unregistered name, with the nearest registered one."""
    text = f"no check {name!r} is registered here"
    names = list(CHECKS)
    return f"{text}; {nearest(name[:80], names)}" if names else text


def _named(assertion: Assertion) -> Iterator[str]:
    if isinstance(assertion.rule, CustomPython):
        yield assertion.rule.check_
    for inner in assertion.rule.inside:
        yield from _named(inner)


def _call(name: str, run: TraceRun, parameters: JsonObject) -> object:
    if name not in CHECKS:
        raise CannotTell(
            unregistered_text(name),
            hint=f"Register it in Python before the replay: rk.register_check({name!r}, function)\n"
            "On the command line, a module does that; name it under `plugins` in replaykit.yaml.",
        )
    try:
        return CHECKS.get(name)(run, **parameters)
    except Exception as error:
        raise CannotTell(f"the check {name!r} raised {type(error).__name__}: {error}") from error
