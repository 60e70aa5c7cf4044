"""Assertions made of others: the laws of logic hold for them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.rule import CannotTell
from replaykit.model.result import Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

YES, NO = {"status_is": "success"}, {"status_is": "error"}
RUN = TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw("Paid."))

nested = st.recursive(
    st.sampled_from([YES, NO, {"output.contains": "Paid"}, {"tool.called": "pay"}]),
    lambda inner: (
        st.builds(lambda one: one if "not" in one else {"not": one}, inner)
        | st.builds(lambda some: {"all": some}, st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda some: {"any": some}, st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=8,
)


def holds(written: dict) -> bool:
    ((kind, value),) = written.items()
    return parse_assertion(kind, value).check(RUN, Side.DESIRED).holds


def opposite(written: dict) -> dict:
    return written.get("not", {"not": written})


@given(nested)
def test_not_turns_every_assertion_around(written):
    assert holds(opposite(written)) is not holds(written)


@given(nested)
def test_not_of_not_says_the_same(written):
    assert holds({"not": {"all": [opposite(written)]}}) is holds(written)


@given(st.lists(nested, min_size=1, max_size=4))
def test_all_and_any_are_those_of_logic(some):
    assert holds({"all": some}) is all(map(holds, some))
    assert holds({"any": some}) is any(map(holds, some))
    assert holds({"not": {"all": some}}) is holds({"any": [opposite(one) for one in some]})


@given(st.lists(st.tuples(nested, st.integers(1, 5)), min_size=1, max_size=4), st.floats(0, 1))
def test_threshold_is_the_share_of_the_weight_that_holds(weighted, least):
    some, weights = zip(*weighted, strict=True)
    share = sum(weight for one, weight in weighted if holds(one)) / sum(weights)

    found = holds({"threshold": {"of": list(some), "weights": list(weights), "min": least}})

    assert found is (share >= least) or abs(share - least) < 1e-8


def test_a_threshold_of_all_is_all_and_one_of_nothing_always_holds():
    assert not holds({"threshold": {"of": [YES, NO], "min": 1}})
    assert holds({"threshold": {"of": [YES, NO], "min": 0.5}})
    assert holds({"threshold": {"of": [NO], "min": 0}})


def test_all_tells_the_first_that_fails():
    finding = parse_assertion("all", [YES, NO, {"tool.called": "pay"}]).check(RUN, Side.DESIRED)

    assert finding.expected == "status error"
    assert finding.actual == "status success"
    assert finding.text == "Run ended with success; Tool 'pay' not called"


def test_any_tells_what_was_seen_of_each():
    finding = parse_assertion("any", [NO, {"tool.called": "pay"}]).check(RUN, Side.DESIRED)

    assert finding.expected == "any of: status error; a call pay"
    assert finding.actual == "status success; tools none"


def test_the_side_reaches_what_is_inside():
    assertion = parse_assertion("all", [{"max_tool_calls": 0}])

    assert assertion.check(RUN, Side.DESIRED).holds
    assert not assertion.check(RUN, Side.OBSERVED).holds


def test_what_cannot_be_told_inside_cannot_be_told():
    assertion = parse_assertion("any", [YES, {"replay.no_divergence": True}])

    with pytest.raises(CannotTell):
        assertion.check(RUN, Side.DESIRED)
    assert assertion.check(RUN, Side.DESIRED, ()).holds


def test_an_assertion_names_those_it_is_made_of():
    assertion = parse_assertion("threshold", {"of": [YES, {"not": NO}], "min": 1})

    assert [one.kind for one in assertion.rule.inside] == ["status_is", "not"]
    assert parse_assertion("status_is", "success").rule.inside == ()
