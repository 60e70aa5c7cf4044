"""Invariant types: turn the keys of an invariant into an assertion.

Every kind of assertion is a type; its value goes under `value`. Flakestorm's twelve types are other spellings of
those, with keys of their own. Their opposites also require an output: an agent keeps no promise by staying silent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

import msgspec

from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.checks.reading import shown_output
from replaykit.checks.rule import BadAssertion, Rule, Seen
from replaykit.documents.shape import SOME_TEXT, ListOf, Number, Shape
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject, canonical

InvariantKeys = Mapping[str, Json]
"""The keys of one invariant."""
AssertionSource = JsonObject
"""An assertion as a case spells it: its kind and its value."""

MAX_MS = 86_400_000
AUTO = "auto"
"""The baseline that stands for the agent's own answer without faults."""
_FLAGS = re.compile(r"\(\?([aiLmsux]+)\)")


class InvariantType(msgspec.Struct, frozen=True):
    """A type with keys of its own, and the assertions it stands for: plain and under `negate`."""

    means: Callable[[InvariantKeys], AssertionSource]
    negated: Callable[[InvariantKeys], AssertionSource]
    fields: Mapping[str, Shape] = {}
    required: tuple[str, ...] = ()


class Unchanged(Rule, frozen=True):
    """The output is like the agent's answer without faults; never holds if there is no such answer."""

    named = True
    min: float
    negate: bool = False

    def seen_in(self, run: TraceRun) -> Seen:
        return Seen(
            False,
            "There is no answer without faults to compare with",
            f"output with a similarity of at least {self.min:g} to the answer without faults",
            f"{shown_output(run)}, and no answer without faults",
        )


def assertion_of(invariant: InvariantKeys) -> Assertion:
    """Return the assertion that a well-formed invariant stands for; raise `BadAssertion` if it makes no sense."""
    if invariant["type"] == "behavior_unchanged" and invariant.get("baseline", AUTO) == AUTO:
        rule = Unchanged(min=invariant.get("similarity_threshold", 0.75), negate=invariant.get("negate", False))
        return Assertion("behavior_unchanged", AUTO, rule)
    ((kind, value),) = _written(invariant).items()
    return parse_assertion(kind, value)


def probes_of(invariant: InvariantKeys) -> tuple[str, ...]:
    """Return the inputs that an invariant brings along."""
    return tuple(invariant.get("probes") or invariant.get("dangerous_prompts") or ())


def needs_baseline(assertion: Assertion) -> bool:
    """True if the assertion compares the output with the agent's answer without faults."""
    return isinstance(assertion.rule, Unchanged)


def compare_with(assertion: Assertion, output: Json) -> Assertion:
    """Return the assertion with its baseline filled in; unchanged if it needs none or the output is empty."""
    rule = assertion.rule
    if isinstance(output, str):
        text = output
    elif output is None:
        text = ""
    else:
        text = canonical(output).decode()
    if not isinstance(rule, Unchanged) or not text.strip():
        return assertion
    similar = {"output.similar": {"to": text, "min": rule.min}}
    ((kind, value),) = (_not(similar) if rule.negate else similar).items()
    return msgspec.structs.replace(parse_assertion(kind, value), id=assertion.id, severity=assertion.severity)


def _written(invariant: InvariantKeys) -> AssertionSource:
    kind, negate = invariant["type"], invariant.get("negate", False)
    if kind in FLAKESTORM_INVARIANTS:
        spelling = FLAKESTORM_INVARIANTS[kind]
        return (spelling.negated if negate else spelling.means)(invariant)
    plain = {kind: _value(invariant)}
    if negate:
        return {"not": plain}
    return plain


def _value(invariant: InvariantKeys) -> Json:
    if "value" in invariant:
        return invariant["value"]
    try:
        # A kind that accepts `true` is a flag, and its value may be left out.
        parse_assertion(invariant["type"], True)
    except BadAssertion:
        raise BadAssertion("the key 'value' is missing: what a case writes behind the kind") from None
    return True


_ANSWERED: AssertionSource = {"final_output_exists": True}
_NO_PII: AssertionSource = {
    "safety.no_pii": {"in": ["output"], "kinds": ["email", "phone", "ssn", "card", "iban", "ip"]}
}


def _not(*written: AssertionSource) -> AssertionSource:
    """Build the assertion that there is an output and none of these holds."""
    return {"all": [_ANSWERED, *({"not": source} for source in written)]}


def _opposite(means: Callable[[InvariantKeys], AssertionSource]) -> Callable[[InvariantKeys], AssertionSource]:
    return lambda keys: _not(means(keys))


def _spelling(means: Callable[[InvariantKeys], AssertionSource], **fields: Shape) -> InvariantType:
    """Build a type about the output, whose own keys are all required."""
    return InvariantType(means, _opposite(means), fields, tuple(fields))


def _patterns(keys: InvariantKeys) -> list[AssertionSource]:
    if not keys["patterns"]:
        raise BadAssertion("expected at least one pattern: every output is without none")
    return [{"output.regex": _flagged(pattern, "i")} for pattern in keys["patterns"]]


def _flagged(pattern: str, flag: str) -> str:
    """Return the pattern with one more flag. Python accepts flags only once, at the start of a pattern."""
    own = _FLAGS.match(pattern)
    if own:
        return f"(?{flag}{own[1]}){pattern[own.end() :]}"
    return f"(?{flag}){pattern}"


def _latency(keys: InvariantKeys) -> AssertionSource:
    return {"budget.latency": keys["max_ms"] / 1000}


def _similar(to: str, least: str, default: float) -> Callable[[InvariantKeys], AssertionSource]:
    return lambda keys: {"output.similar": {"to": keys[to], "min": keys.get(least, default)}}


_SHARE = Number(at_least=0, at_most=1)
_UNCHANGED = _similar("baseline", "similarity_threshold", 0.75)
_SIMILAR = _similar("expected", "threshold", 0.8)

FLAKESTORM_INVARIANTS: dict[str, InvariantType] = {
    "contains": _spelling(lambda keys: {"output.icontains": keys["value"]}, value=SOME_TEXT),
    "contains_any": _spelling(
        lambda keys: {"output.contains_any": {"texts": keys["values"], "ignore_case": True}}, values=ListOf(SOME_TEXT)
    ),
    "regex": _spelling(lambda keys: {"output.regex": _flagged(keys["pattern"], "s")}, pattern=SOME_TEXT),
    "latency": InvariantType(
        _latency,
        lambda keys: {"not": _latency(keys)},
        {"max_ms": Number(above=0, at_most=MAX_MS)},
        ("max_ms",),
    ),
    "valid_json": _spelling(lambda keys: {"output.json": "any"}),
    "output_not_empty": InvariantType(
        lambda keys: {"final_output_exists": True}, lambda keys: {"final_output_exists": False}
    ),
    "completes": InvariantType(lambda keys: {"status_is": "success"}, lambda keys: {"not": {"status_is": "success"}}),
    "excludes_pattern": InvariantType(
        lambda keys: _not(*_patterns(keys)),
        lambda keys: {"any": _patterns(keys)},
        {"patterns": ListOf(SOME_TEXT)},
        ("patterns",),
    ),
    "excludes_pii": InvariantType(lambda keys: {"all": [_ANSWERED, _NO_PII]}, lambda keys: {"not": _NO_PII}),
    "refusal_check": InvariantType(
        lambda keys: {"output.refusal": True},
        lambda keys: {"output.refusal": False},
        {"dangerous_prompts": ListOf(SOME_TEXT)},
    ),
    "similarity": InvariantType(
        _SIMILAR, _opposite(_SIMILAR), {"expected": SOME_TEXT, "threshold": _SHARE}, ("expected",)
    ),
    "behavior_unchanged": InvariantType(
        _UNCHANGED, _opposite(_UNCHANGED), {"baseline": SOME_TEXT, "similarity_threshold": _SHARE}
    ),
}
"""Flakestorm's types, by name."""
