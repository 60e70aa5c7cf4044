"""What items and parts add up to, and the form it is kept in."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from replaykit.cases.run_session import SeenCall
from replaykit.errors import ExitCode
from replaykit.model.result import Finding
from replaykit.model.values import Raw
from replaykit.trials.ci_result import (
    CiItem,
    CiOutcome,
    CiPart,
    CiPartName,
    CiResult,
    exit_code_of,
    overall,
    payload_text,
)

PARTS = st.builds(
    CiPart,
    part=st.sampled_from(CiPartName),
    name=st.just("x"),
    score=st.none() | st.floats(0, 100),
    weight=st.floats(0, 1),
    total=st.integers(0, 9),
    passed=st.integers(0, 9),
)


def item(
    outcome: CiOutcome = CiOutcome.PASSED, part: CiPartName = CiPartName.CONTRACT, severity: str = "", **said: object
) -> CiItem:
    failures = (Finding(kind="x", holds=False, text="x", severity=severity),) if severity else ()
    return CiItem(part=part, id="x", outcome=outcome, failures=failures, **said)  # type: ignore[arg-type]


@given(st.lists(PARTS))
@example([CiPart(part=CiPartName.MUTATION, name="x", score=1.5, weight=5e-324, total=0, passed=0)])
def test_the_overall_score_lies_between_the_lowest_and_the_highest(parts: list[CiPart]) -> None:
    scores = [part.score for part in parts if part.score is not None]
    told = overall(parts)

    if not scores:
        assert told is None
    else:
        assert told is not None
        assert min(scores) - 0.01 <= told <= max(scores) + 0.01


def test_parts_without_a_score_do_not_count() -> None:
    scored = CiPart(part=CiPartName.REPLAY, name="r", score=80, weight=0.1, total=1, passed=1)
    silent = CiPart(part=CiPartName.CHAOS, name="c", score=None, weight=0.9, total=1, passed=0)

    assert overall([scored, silent]) == 80


def test_parts_that_all_weigh_nothing_count_alike() -> None:
    parts = [CiPart(part=CiPartName.REPLAY, name="r", score=score, weight=0, total=1, passed=1) for score in (50, 100)]

    assert overall(parts) == 75


@pytest.mark.parametrize(
    ("items", "scores", "min_score", "code"),
    [
        ([], (None, None), None, ExitCode.NOTHING),
        ([item()], (100, 100), None, ExitCode.PASSED),
        ([item(), item(CiOutcome.FAILED)], (90, 90), None, ExitCode.FAILED),
        ([item(), item(CiOutcome.FAILED)], (90, 90), 90, ExitCode.PASSED),
        ([item(), item(CiOutcome.FAILED)], (89.99, 89.99), 90, ExitCode.FAILED),
        ([item(), item(CiOutcome.FAILED, severity="high")], (90, 90), 90, ExitCode.PASSED),
        ([item(), item(CiOutcome.FAILED, severity="critical")], (90, 90), 0, ExitCode.FAILED),
        ([item(), item(CiOutcome.FAILED, CiPartName.REPLAY)], (90, 90), 0, ExitCode.FAILED),
        ([item(), item(CiOutcome.ERROR)], (45, 90), 0, ExitCode.CANNOT),
        ([item(CiOutcome.FAILED), item(CiOutcome.ERROR)], (0, 50), None, ExitCode.FAILED),
        ([item(CiOutcome.FAILED, CiPartName.REPLAY), item(CiOutcome.ERROR)], (0, 50), 0, ExitCode.FAILED),
        ([item(CiOutcome.FAILED), item(CiOutcome.ERROR)], (0, 50), 50, ExitCode.CANNOT),
        ([item(CiOutcome.FAILED), item(CiOutcome.ERROR)], (0, 50), 51, ExitCode.FAILED),
        ([item(CiOutcome.FAILED), item(CiOutcome.ERROR, is_wrong_file=True)], (0, 50), None, ExitCode.USAGE),
        ([item(CiOutcome.ERROR), item(CiOutcome.UNTESTED)], (50, 100), None, ExitCode.CANNOT),
        ([item(CiOutcome.ERROR), item(CiOutcome.ERROR, is_wrong_file=True)], (0, 0), None, ExitCode.USAGE),
        ([item(), item(CiOutcome.UNTESTED)], (100, 100), 0, ExitCode.NOTHING),
        ([item(CiOutcome.FAILED), item(CiOutcome.UNTESTED)], (0, 0), None, ExitCode.FAILED),
    ],
)
def test_the_exit_code(
    items: list[CiItem], scores: tuple[float | None, float | None], min_score: float | None, code: ExitCode
) -> None:
    assert exit_code_of(items, *scores, min_score) is code


def test_a_result_comes_back_from_its_json() -> None:
    call = SeenCall(name="t", arguments_json=Raw(b'{"a":1}'), response_json=Raw(b"[1]"), status=503, latency_ms=2)
    result = CiResult(
        passed=False,
        exit_code=1,
        score=12.5,
        verdict="failed",
        items=[item(CiOutcome.FAILED, input_json=Raw(b'"x"'), calls=(call,))],
    )

    again = msgspec.json.decode(msgspec.json.encode(result), type=CiResult)

    assert again == result
    assert again.replaykit == 1


@pytest.mark.parametrize(
    ("value", "text"), [(b"", ""), (b'"a\\nb"', "a\nb"), (b'{"a":1}', '{"a":1}'), (b"null", "null")]
)
def test_a_payload_for_people(value: bytes, text: str) -> None:
    assert payload_text(Raw(value)) == text
