"""Prove a case: it must be red for a candidate with the failure, and green for one with the fix."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from replaykit.candidates.attempt import Candidate
from replaykit.candidates.pool import Pool
from replaykit.candidates.worlds import with_scenario
from replaykit.cases.case import RECORDED, ReplayCase
from replaykit.cases.proof import ProofWriter
from replaykit.checks.verdict import EXIT_CODES, is_red, settled
from replaykit.errors import ExitCode, gravest
from replaykit.model.result import ReplayResult, Verdict


class Proving(Struct, frozen=True, kw_only=True):
    """The replays of both candidates, and what they show."""

    case: ReplayCase
    bad: tuple[ReplayResult, ...]
    good: tuple[ReplayResult, ...]

    @property
    def is_red(self) -> bool:
        """Whether the bad candidate failed every time, as the case describes."""
        return all(map(is_red, self.bad))

    @property
    def is_green(self) -> bool:
        """Whether the good candidate was fixed every time."""
        return all(result.verdict is Verdict.FIXED for result in self.good)

    @property
    def is_proven(self) -> bool:
        return self.is_red and self.is_green

    @property
    def expected_red(self) -> Verdict:
        """The verdict expected of the bad candidate. A session has no signatures that could be reproduced."""
        if self.case.observed:
            return Verdict.REPRODUCED
        return Verdict.BROKEN

    @property
    def exit_code(self) -> ExitCode:
        """Passed only for a complete proof; otherwise the most severe code of the unexpected results."""
        amiss = [result for result in self.bad if not is_red(result)]
        amiss += [result for result in self.good if result.verdict is not Verdict.FIXED]
        codes = {**EXIT_CODES, Verdict.FIXED: ExitCode.FAILED}
        return gravest([ExitCode.PASSED, *(codes[result.verdict] for result in amiss)])

    def write(self) -> Path | None:
        """Write the proof to the case and return its file if that changed it. A green alone proves nothing."""
        if not self.is_red:
            return None
        green = self.good[0].candidate if self.is_green else None
        return ProofWriter(self.case).write(
            red=self.bad[0].candidate,
            green=green,
            green_take=self.good[0].take or RECORDED,
            repeats=len(self.bad),
        )


def prove(
    case: ReplayCase,
    bad: Candidate,
    good: Candidate,
    *,
    repeat: int = 1,
    timeout_s: float | None = None,
    evidence: Path | None = None,
    on_done: Callable[[], None] = lambda: None,
) -> Proving:
    """Replay both candidates `repeat` times. Repetitions that disagree are `flaky`."""

    def results(subject: ReplayCase, candidate: Candidate) -> tuple[ReplayResult, ...]:
        runs = []
        with Pool(candidate, workers=1) as pool:
            for result in pool.replay([subject] * repeat, timeout_s=timeout_s, evidence=evidence):
                runs.append(result)
                on_done()
        return tuple(settled(runs))

    bad_results = results(case, bad)
    good_results = results(with_scenario(case, was_seen_red=all(map(is_red, bad_results))), good)
    return Proving(case=case, bad=bad_results, good=good_results)
