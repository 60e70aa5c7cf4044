"""A replay as text: what failed, said once, and what is good to know though it decides nothing."""

from __future__ import annotations

import msgspec
import pytest
from click import unstyle

from replaykit.model.isolation import Isolation, IsolationLevel
from replaykit.model.result import Deviation, Finding, ReplayResult, Verdict
from replaykit.report.replays import isolation_text, result_text, results_text


def replayed(*deviations: tuple[str, str, str | None], **said: object) -> ReplayResult:
    told = tuple(Deviation(kind=kind, text=text, name=name) for kind, text, name in deviations)
    members = {"case_id": "c", "verdict": Verdict.FIXED, **said}
    return ReplayResult(deviations=told, **members)  # type: ignore[arg-type]


def unused(*names: str) -> list[tuple[str, str, str | None]]:
    return [("unused", f"`{name}` was not called", name) for name in names]


def lines(result: ReplayResult) -> list[str]:
    return [line.strip() for line in unstyle(result_text(result)).splitlines()]


def test_what_of_the_tape_was_not_used_is_one_line() -> None:
    notes = [line for line in lines(replayed(*unused("refund", "lookup", "refund"))) if line.startswith("note")]

    assert notes == ["note: recorded and not called: lookup × 1, refund × 2"]


def test_that_nobody_watched_and_that_no_context_was_given_are_lines_of_their_own() -> None:
    result = replayed(("unwatched", "its tools were live", None), ("context", "it was not given", None))

    assert lines(result)[-2:] == ["note: its tools were live", "note: it was not given"]


@pytest.mark.parametrize("kind", ["moved", "repeated", "fault", "arguments", "rekeyed", "now", "live"])
def test_what_a_verdict_stands_with_is_shown_beside_it(kind: str) -> None:
    notes = [line for line in lines(replayed((kind, "in words", "lookup"))) if line.startswith("note")]

    assert len(notes) == 1
    assert notes[0].endswith(": lookup × 1")


def test_what_decides_is_the_reason_and_no_note() -> None:
    assert "note" not in result_text(replayed(("missing", "not recorded", "lookup")))
    assert "note" not in result_text(replayed())


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (Verdict.REPRODUCED, "Result: FAILURE REPRODUCED"),
        (Verdict.FIXED, "Result: FIXED"),
        (Verdict.BROKEN, "Result: BROKEN"),
        (Verdict.DIVERGED, "Result: DIVERGED: it asked for something that was not recorded"),
        (Verdict.FLAKY, "Result: FLAKY: repeated runs disagree"),
        (Verdict.INCONCLUSIVE, "Result: INCONCLUSIVE: cannot tell"),
    ],
)
def test_each_verdict_has_its_own_headline(verdict: Verdict, words: str) -> None:
    assert any(line.strip("│ ") == words for line in lines(replayed(verdict=verdict)))


@pytest.mark.parametrize("verdict", [Verdict.DIVERGED, Verdict.FLAKY])
def test_what_to_do_next_is_told(verdict: Verdict) -> None:
    assert "Next: " in result_text(replayed(verdict=verdict, reason="why"))


def test_a_verdict_with_live_calls_says_so() -> None:
    assert "FIXED with live calls" in unstyle(result_text(replayed(offline=False)))


def test_a_doubt_about_a_failure_that_showed_is_a_note() -> None:
    result = replayed(verdict=Verdict.REPRODUCED, uncertain=("too close to call: a and b ended at once",))

    assert "note: too close to call: a and b ended at once" in lines(result)


def test_a_note_is_short_and_shows_what_a_terminal_would_obey() -> None:
    result = replayed(*unused(*(f"tool{number}\x1b[2J" for number in range(500))))

    (note,) = [line for line in lines(result) if line.startswith("note")]
    assert len(note) < 250
    assert "\x1b" not in note


def test_notes_of_many_replays_are_a_line_for_each_sort() -> None:
    results = [msgspec.structs.replace(replayed(*unused("a", "b")), case_id=f"case{number}") for number in range(5)]
    results.append(replayed(("context", "it was not given", None)))

    text = unstyle(results_text([*results, results[0]]))

    assert "note: recorded calls were not made in: case0, case1, case2 and 2 more\n" in text
    assert "note: the context was not given in: c\n" in text
    assert text.count("note:") == 2


FAILED = Finding(kind="contains", holds=False, text="t", expected="a word", actual="none", id="inv", severity="high")
REASON = "a desired assertion failed: expected a word, got none"


def test_the_one_assertion_that_failed_is_told_once() -> None:
    text = result_text(replayed(verdict=Verdict.BROKEN, desired=(FAILED,), reason=REASON))

    assert text.count("expected a word, got none") == 1
    assert "inv (high): expected a word, got none" in text


def test_what_a_reason_adds_to_the_failure_is_shown_beside_it() -> None:
    text = result_text(
        replayed(verdict=Verdict.BROKEN, desired=(FAILED,), reason=f"{REASON}\nthat is on the take 'two'")
    )

    assert "that is on the take 'two'" in text
    assert "inv (high): expected a word, got none" in text


def test_whether_it_reproduced_is_told_only_where_there_is_a_failure_to_look_for() -> None:
    seen = Finding(kind="status_is", holds=True, text="Run ended with error")

    assert "reproduced:" not in result_text(replayed(desired=(FAILED,)))
    text = unstyle(result_text(replayed(observed=(seen,), reproduced=True)))
    assert "Observed failure reproduced: Yes" in text


def test_channels_at_another_level_than_the_weakest_are_named() -> None:
    channels = {"network": IsolationLevel.FULL, "files": IsolationLevel.LANDLOCK}

    assert isolation_text(Isolation(level=IsolationLevel.LANDLOCK, channels=channels)) == "landlock (network full)"
    assert isolation_text(Isolation(level=IsolationLevel.FULL, channels={"files": IsolationLevel.FULL})) == "full"
