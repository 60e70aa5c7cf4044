"""Many replays: in order or side by side, and what they add up to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from replaykit.cases.case import ReplayCase
from replaykit.errors import ExitCode
from replaykit.model.result import ReplayResult, Verdict
from replaykit.runners.attempt import Candidate, Stoppable
from replaykit.runners.replay import replay


def replay_many(
    cases: Sequence[ReplayCase],
    candidate: Candidate,
    *,
    timeout_s: float | None = None,
    evidence: Path | None = None,
    jobs: int = 1,
    on_done: Callable[[], None] = lambda: None,
) -> list[ReplayResult]:
    """The result of each case, in the order of the cases."""

    def one(case: ReplayCase) -> ReplayResult:
        result = replay(case, candidate, timeout_s=timeout_s, evidence=evidence)
        on_done()
        return result

    if jobs == 1:
        return [one(case) for case in cases]
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 (slow to import)

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        waiting = [pool.submit(one, case) for case in cases]
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
    if any(result.verdict is Verdict.ERROR for result in results):
        return ExitCode.CANNOT
    return ExitCode.PASSED if all(result.verdict is expected for result in results) else ExitCode.FAILED
