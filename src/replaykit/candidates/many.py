"""Many replays: in order or side by side, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from replaykit.candidates.attempt import Candidate, Stoppable
from replaykit.candidates.replay import replay
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.checks.verdict import EXIT_CODES, failed_to_run
from replaykit.errors import ExitCode, FormatTooNew, InvalidFile, ReplayKitError, gravest
from replaykit.model.result import ReplayResult, Verdict

T = TypeVar("T")
R = TypeVar("R")


def replay_many(
    cases: Sequence[ReplayCase | Unusable],
    candidate: Candidate,
    *,
    timeout_s: float | None = None,
    evidence: Path | None = None,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
    on_wrong: Callable[[ReplayKitError], None] | None = None,
) -> list[ReplayResult]:
    """The result of each case, in the order of the cases; of what is no case, an error.

    A case whose fixtures or trace turn out to be wrong raises; with `on_wrong` it is told there, and is one error.
    """

    def one(case: ReplayCase | Unusable) -> ReplayResult:
        try:
            if isinstance(case, Unusable):
                return failed_to_run(case.id, case.reason)
            return replay(case, candidate, timeout_s=timeout_s, evidence=evidence)
        except (InvalidFile, FormatTooNew) as error:
            if on_wrong is None:
                raise
            on_wrong(error)
            return failed_to_run(case.id, str(error))
        finally:
            on_done()

    return side_by_side(cases, one, candidate, jobs=jobs)


def side_by_side(work: Sequence[T], one: Callable[[T], R], candidate: Candidate, *, jobs: int) -> list[R]:
    """What `one` gives for each piece of work, in its order; an exception ends what the candidate still does."""
    if jobs == 1:
        return [one(piece) for piece in work]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (slow to import)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(one, piece) for piece in work]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            if isinstance(candidate, Stoppable):
                candidate.stop()
            raise


def exit_code(results: Sequence[ReplayResult], expected: Verdict = Verdict.FIXED) -> ExitCode:
    """Passed only when there is something, and all of it is as expected."""
    if not results:
        return ExitCode.NOTHING
    codes = {**EXIT_CODES, Verdict.FIXED: ExitCode.FAILED, expected: ExitCode.PASSED}
    return gravest(codes[result.verdict] for result in results)
