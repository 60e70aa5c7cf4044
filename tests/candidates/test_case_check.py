"""A new case is checked with the very run it was made of, and with the agent that made it."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import replaykit as rk
from replaykit.candidates.case_check import CaseCheck, check_case
from replaykit.candidates.inprocess import CallableCandidate
from replaykit.candidates.prove import prove
from replaykit.cases.lint import lint_case
from replaykit.cases.proof import RECORDED_RUN, read_proof
from replaykit.cases.scaffold import scaffold as write_case
from replaykit.model.result import Verdict


@rk.tool
def look(item: str) -> dict[str, Any]:
    return {"item": item, "stock": 3}


@rk.tool
def report(user: str) -> str:
    return f"mail to {user}@example.org"


@rk.tool
def outer(item: str) -> Any:
    return look(item)


def recorded(store: rk.Store, agent: Callable[[str], Any], given: str = "lamp") -> rk.TraceRun:
    with suppress(LookupError), rk.record("shop", input=given, store=store) as run:
        run.output = agent(given)
    return store.load(run.id)


def breaks(item: str) -> Any:
    look(item)
    raise LookupError("sold out")


def checked(run: rk.TraceRun, candidate: Callable[..., Any] | None = None, **changed: Any) -> CaseCheck:
    case = write_case(run, "cases/new")
    for name, (old, new) in changed.items():
        file = next(file for file in case.directory.rglob("*") if file.stem == name)
        text = file.read_text()
        assert old in text
        file.write_text(text.replace(old, new))
    return check_case(rk.load_case("cases/new"), run, None if candidate is None else CallableCandidate(candidate))


def test_a_failed_run_is_reproduced_by_its_own_recording_and_that_is_its_proof(store: rk.Store) -> None:
    check = checked(recorded(store, breaks))

    assert check.is_ready
    assert (check.exit_code, [result.verdict for result in check.results]) == (0, [Verdict.REPRODUCED])
    red = read_proof(rk.load_case("cases/new")).red
    assert red is not None
    assert red.candidate == RECORDED_RUN


def test_the_agent_that_is_named_is_replayed_and_is_the_proof(store: rk.Store) -> None:
    check = checked(recorded(store, breaks), breaks)

    assert [result.candidate for result in check.results] == [RECORDED_RUN, "breaks"]
    red = read_proof(rk.load_case("cases/new")).red
    assert red is not None
    assert red.candidate == "breaks"


@pytest.mark.parametrize(
    ("agent", "verdict", "code"),
    [
        (lambda item: look(item)["item"], "fixed", 1),
        (lambda item: look("another"), "diverged", 1),
        (lambda item: item, "inconclusive", 3),
    ],
)
def test_an_agent_that_does_not_fail_again_leaves_the_case_unready_and_unproven(
    store: rk.Store, agent: Callable[[str], Any], verdict: str, code: int
) -> None:
    check = checked(recorded(store, breaks), agent)

    assert not check.is_ready
    assert f"is {verdict}, expected reproduced" in check.problem
    assert check.exit_code == code
    proof = read_proof(rk.load_case("cases/new"))
    assert proof.red is None
    assert proof.not_reproduced is not None
    assert proof.not_reproduced.verdict == verdict


def lucky(item: str) -> Any:
    return look(item)["item"]


def test_nobody_is_fixed_on_a_tape_that_the_failing_agent_did_not_fail_on(store: rk.Store) -> None:
    checked(recorded(store, breaks), lucky)

    result = rk.replay("cases/new", lucky)

    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the unchanged candidate did not reproduce the failure: lucky was fixed" in result.reason
    assert "replaykit prove cases/new" in result.reason
    (flaw,) = [flaw for flaw in lint_case("cases/new") if flaw.code == "not-reproduced"]
    assert flaw.severity == "warning"


def test_the_recorded_run_does_not_take_back_that_its_agent_did_not_fail(store: rk.Store) -> None:
    run = recorded(store, breaks)
    checked(run, lucky)

    check_case(rk.load_case("cases/new"), run)

    assert rk.replay("cases/new", lucky).verdict is Verdict.INCONCLUSIVE


def test_a_candidate_that_is_seen_red_makes_the_tape_good_again(store: rk.Store) -> None:
    checked(recorded(store, breaks), lucky)

    proving = prove(rk.load_case("cases/new"), CallableCandidate(breaks), CallableCandidate(lucky))
    proving.write()

    assert proving.is_proven
    assert rk.replay("cases/new", lucky).verdict is Verdict.FIXED
    assert read_proof(rk.load_case("cases/new")).not_reproduced is None


def test_a_bad_candidate_that_is_not_red_leaves_the_tape_as_it_is(store: rk.Store) -> None:
    checked(recorded(store, breaks), lucky)

    proving = prove(rk.load_case("cases/new"), CallableCandidate(lucky), CallableCandidate(lucky))
    proving.write()

    assert [result.verdict for result in (*proving.bad, *proving.good)] == [Verdict.INCONCLUSIVE] * 2
    assert read_proof(rk.load_case("cases/new")).not_reproduced is not None


def test_a_case_that_was_changed_since_is_only_unproven(store: rk.Store) -> None:
    checked(recorded(store, breaks), lucky)
    file = Path("cases/new/case.yaml")
    file.write_text(file.read_text().replace("input: lamp", "input: lamp\n  tool_errors: raised"))

    result = rk.replay("cases/new", lucky)

    assert result.verdict is Verdict.FIXED
    assert result.unproven == "not seen red since it changed"


def test_a_run_that_did_not_fail_has_nothing_to_reproduce(store: rk.Store) -> None:
    check = checked(recorded(store, lambda item: look(item)["item"]))

    assert not check.is_ready
    assert check.problem.startswith("nothing to reproduce")
    assert "replaykit golden RUN" in check.problem
    assert check.exit_code == 3
    assert not Path("cases/new/proof.json").exists()


@pytest.mark.parametrize(
    "changed",
    [
        {"look": ('"lamp"', '"sofa"')},
        {"look": ('"name": "look"', '"name": "loook"')},
        {"case": ("status_is: error", "status_is: timeout")},
        {"case": ("tools: recorded", "tools: blocked")},
    ],
)
def test_a_case_that_does_not_fit_its_recording_is_not_ready(store: rk.Store, changed: dict[str, Any]) -> None:
    assert not checked(recorded(store, breaks), **changed).is_ready


def test_redacted_values_are_found_again(store: rk.Store) -> None:
    def mails(user: str) -> None:
        report(user)
        raise LookupError(f"nobody at {user}")

    run = recorded(store, mails, "alice@example.com")
    check = checked(run)

    assert check.is_ready, check.problem
    assert "alice@example.com" not in Path("cases/new/case.yaml").read_text()


def test_calls_inside_a_tool_are_not_asked_again(store: rk.Store) -> None:
    def nested(item: str) -> None:
        outer(item)
        raise LookupError("sold out")

    check = checked(recorded(store, nested))

    assert check.is_ready
    (result,) = check.results
    assert result.run is not None
    assert [call.name for call in result.run.calls] == ["outer"]


def test_a_call_without_a_recorded_answer_is_named() -> None:
    trace = {
        "run_id": "cut",
        "status": "error",
        "input": "hi",
        "events": [{"type": "tool_call", "name": "look", "input": {"item": "x"}}],
        "errors": ["it broke"],
    }
    Path("trace.json").write_text(json.dumps(trace))
    from replaykit.formats.files import import_trace

    (run,) = import_trace(Path("trace.json")).runs

    check = checked(run)

    assert not check.is_ready
    assert "look" in check.problem


def test_rk_scaffold_writes_the_proof(store: rk.Store) -> None:
    case = rk.scaffold(recorded(store, breaks), "cases/new")

    assert read_proof(case).red is not None
