"""Trajectories: every mode against a model that tries everything; order, loops and lists of tools."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.compare import ArgsMode, args_agree
from replaykit.checks.trajectory import paired
from replaykit.model.events import ToolCall
from replaykit.model.result import Finding, Side
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import Raw, canonical, raw


def run_of(*calls: tuple[str, Any] | str) -> TraceRun:
    named = [(call, {}) if isinstance(call, str) else call for call in calls]
    events = tuple(
        ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw("ok"))
        for seq, (name, arguments) in enumerate(named)
    )
    return TraceRun(id="r", status=RunStatus.SUCCESS, events=events)


def found(kind: str, value: Any, *calls: tuple[str, Any] | str) -> Finding:
    return parse_assertion(kind, value).check(run_of(*calls), Side.DESIRED)


def fits(expected: Any, call: tuple[str, Any], args: str) -> bool:
    """The model of one pair: names are equal, and the named arguments stand to the call's as `args` says."""
    name, named = (expected, None) if isinstance(expected, str) else (expected["tool"], expected["arguments"])
    made = call[1]
    if name != call[0]:
        return False
    if named is None or args == "ignore":
        return True
    return {"exact": made == named, "subset": made.items() <= named.items(), "superset": made.items() >= named.items()}[
        args
    ]


def holds_by_trying(expected: list[Any], made: list[tuple[str, Any]], mode: str, args: str) -> bool:
    """The model of a trajectory: every way to give each of the shorter list one of the longer."""
    few, many = sorted((range(len(expected)), range(len(made))), key=len)
    ways = permutations(many, len(few))
    pairs = [list(zip(few, way, strict=True)) for way in ways]
    if len(expected) > len(made):
        pairs = [[(index, call) for call, index in way] for way in pairs]
    good = [way for way in pairs if all(fits(expected[index], made[call], args) for index, call in way)]
    in_order = [way for way in good if [call for _, call in sorted(way)] == sorted(call for _, call in way)]
    no_extra, no_missing = len(made) <= len(expected), len(expected) <= len(made)
    return {
        "strict": bool(in_order) and no_extra and no_missing,
        "in_order": bool(in_order) and no_missing,
        "unordered": bool(good) and no_extra and no_missing,
        "subset": bool(good) and no_extra,
        "superset": bool(good) and no_missing,
    }[mode]


names = st.sampled_from(["a", "b"])
values = st.dictionaries(st.sampled_from(["q", "n"]), st.sampled_from([1, 2]), max_size=2)
expected_calls = st.lists(
    st.sampled_from(["a", "b"])
    | st.builds(lambda n, v: {"tool": n, "arguments": v}, st.sampled_from(["a", "b"]), values),
    max_size=4,
)
made_calls = st.lists(st.tuples(st.sampled_from(["a", "b"]), values), max_size=4)
modes = st.sampled_from(["strict", "in_order", "unordered", "subset", "superset"])
args_modes = st.sampled_from(["exact", "ignore", "subset", "superset"])


@given(expected_calls, made_calls, modes, args_modes)
def test_every_mode_agrees_with_trying_everything(expected, made, mode, args):
    finding = found("trajectory.match", {"calls": expected, "mode": mode, "args": args}, *made)

    assert finding.holds is holds_by_trying(expected, made, mode, args)


@given(expected_calls, made_calls, args_modes)
def test_the_modes_imply_each_other(expected, made, args):
    holds = {
        mode: found("trajectory.match", {"calls": expected, "mode": mode, "args": args}, *made).holds
        for mode in ("strict", "in_order", "unordered", "subset", "superset")
    }

    assert not holds["strict"] or (holds["in_order"] and holds["unordered"])
    assert not holds["unordered"] or (holds["subset"] and holds["superset"])
    assert not holds["in_order"] or holds["superset"]


@pytest.mark.parametrize(
    ("mode", "extra", "missing"),
    [
        ("strict", False, False),
        ("in_order", True, False),
        ("unordered", False, False),
        ("subset", False, True),
        ("superset", True, False),
    ],
)
def test_subset_and_superset_are_about_what_the_run_did(mode, extra, missing):
    value = {"calls": ["a", "b"], "mode": mode}

    assert found("trajectory.match", value, "a", "b").holds
    assert found("trajectory.match", value, "a", "b", "c").holds is extra
    assert found("trajectory.match", value, "a").holds is missing


def test_a_pair_that_only_fits_one_way_is_found():
    expected = ["*", {"tool": "a", "arguments": {"n": 1}}]

    assert found("trajectory.match", {"calls": expected, "mode": "unordered"}, ("a", {"n": 1}), ("a", {"n": 2})).holds


@given(st.lists(st.sets(st.integers(0, 5)), max_size=6))
def test_pairing_finds_as_many_pairs_as_there_can_be(options):
    pairs = paired(options, range(6), lambda wanted, number: number in wanted)

    def best(index: int, used: frozenset[int]) -> int:
        if index == len(options):
            return 0
        tried = [1 + best(index + 1, used | {number}) for number in options[index] - used]
        return max([best(index + 1, used), *tried])

    assert all(right in options[left] for left, right in pairs.items())
    assert len(set(pairs.values())) == len(pairs) == best(0, frozenset())


@pytest.mark.parametrize(
    ("overrides", "holds"),
    [
        ({}, False),
        ({"send": "ignore"}, True),
        ({"send": "superset"}, True),
        ({"send": ["to"]}, True),
        ({"send": []}, True),
    ],
)
def test_one_tool_can_be_compared_in_another_way(overrides, holds):
    value = {"calls": ["find", {"tool": "send", "arguments": {"to": "ana"}}], "overrides": overrides}

    assert found("trajectory.match", value, "find", ("send", {"to": "ana", "id": 7})).holds is holds
    assert found("trajectory.match", value, "find", ("send", {"to": "bo"})).holds is (
        overrides in ({"send": "ignore"}, {"send": []})
    )


def test_the_first_call_that_differs_is_pointed_at():
    finding = found("trajectory.match", ["a", "b", "c"], "a", "x", "c")

    assert finding.seq == 1
    assert "expected b where x({}) was called" in finding.actual
    assert "c is missing" in found("trajectory.match", ["a", "b", "c"], "a", "b").actual
    assert found("trajectory.match", {"calls": ["a"], "mode": "unordered"}, "a", "z").seq == 1


@given(values, values, args_modes)
def test_arguments_that_are_the_same_agree_in_every_mode(one, other, mode):
    assert args_agree(one, one, ArgsMode(mode))
    assert args_agree(one, other, ArgsMode.SUBSET) is args_agree(other, one, ArgsMode.SUPERSET)


@pytest.mark.parametrize(
    ("calls", "f1"), [(["a", "b"], 1.0), (["a"], 2 / 3), (["a", "a", "b"], 0.8), (["x"], 0.0), ([], 0.0)]
)
def test_f1_counts_the_calls_that_both_have(calls, f1):
    assert found("trajectory.f1", {"tools": ["a", "b"], "min": f1}, *calls).holds
    assert f1 == 1 or not found("trajectory.f1", {"tools": ["a", "b"], "min": f1 + 0.01}, *calls).holds


@pytest.mark.parametrize(
    ("calls", "holds", "seq"),
    [
        (["a", "b"], True, 1),
        (["b", "a"], False, 0),
        (["b"], False, 0),
        (["a"], True, 0),
        ([], True, None),
        (["x"], True, 0),
    ],
)
def test_before_wants_the_first_before_the_second(calls, holds, seq):
    finding = found("trajectory.before", {"first": "a", "then": "b"}, *calls)

    assert (finding.holds, finding.seq) == (holds, seq)


@pytest.mark.parametrize(
    ("calls", "holds"),
    [(["b", "a"], True), (["a", "b"], False), (["a", "x", "b"], False), (["a", "a"], True), ([], True)],
)
def test_never_after_forbids_what_comes_later(calls, holds):
    assert found("trajectory.never_after", {"tool": "b", "after": "a"}, *calls).holds is holds


def test_the_same_tool_may_be_forbidden_after_itself():
    assert found("trajectory.never_after", {"tool": "a", "after": "a"}, "a", "b").holds
    assert not found("trajectory.never_after", {"tool": "a", "after": "a"}, "a", "b", "a").holds


@pytest.mark.parametrize(
    ("calls", "loops"),
    [
        ("aaa", True),
        ("aab", False),
        ("aabaa", False),
        ("ababab", True),
        ("xababab", True),
        ("abab", False),
        ("abcabcabc", True),
        ("abcdeabcdeabcde", False),
    ],
)
def test_a_loop_is_the_same_stretch_again_and_again(calls, loops):
    assert found("trajectory.no_loop", 3, *calls).holds is not loops


def test_a_longer_stretch_is_found_when_it_is_looked_for():
    assert not found("trajectory.no_loop", {"repeats": 3, "period": 5}, *"abcdeabcdeabcde").holds


def test_a_loop_is_pointed_at_where_it_closes():
    finding = found("trajectory.no_loop", 2, "x", "a", "b", "a", "b")

    assert finding.text == "Loop: a → b, 2 times in a row"
    assert finding.seq == 4


def test_other_arguments_are_no_loop_unless_they_are_ignored():
    calls = [("a", {"page": page}) for page in range(3)]

    assert found("trajectory.no_loop", 3, *calls).holds
    assert not found("trajectory.no_loop", {"repeats": 3, "ignore_arguments": True}, *calls).holds


@given(st.text("ab", max_size=14), st.integers(2, 4), st.integers(1, 3))
def test_loops_agree_with_looking_at_every_place(calls, repeats, period):
    loops = any(
        calls[start : start + size * repeats] == calls[start : start + size] * repeats
        for size in range(1, period + 1)
        for start in range(len(calls) - size * repeats + 1)
    )

    assert found("trajectory.no_loop", {"repeats": repeats, "period": period}, *calls).holds is not loops


@pytest.mark.parametrize(
    ("value", "holds"),
    [
        (["find_*", "send"], True),
        (["find_*"], False),
        ({"deny": ["delete_*"]}, True),
        ({"deny": ["send"]}, False),
        ({"allow": ["*"], "deny": ["find_order"]}, False),
        ([], False),
    ],
)
def test_only_allowed_tools_may_be_called(value, holds):
    assert found("trajectory.allowlist", value, "find_order", "send").holds is holds


def test_a_long_run_is_matched_without_recursion():
    calls = ["a"] * 900

    assert found("trajectory.match", {"calls": ["a"] * 900, "mode": "unordered"}, *calls).holds
