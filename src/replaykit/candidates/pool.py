"""The pool: parallel replays in processes that import the agent once. `ci`, trials and `prove` use it."""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace

from replaykit.arguments import checked
from replaykit.candidates.agent_loader import is_spec
from replaykit.candidates.attempt import Candidate, Stoppable
from replaykit.candidates.evidence import EvidenceFiles, new_workspace, write_evidence
from replaykit.candidates.replay import CandidateLike, candidate_for, replay, replay_once, subject_of
from replaykit.candidates.worlds import with_chaos, with_consent
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.checks.verdict import failed_to_run
from replaykit.errors import FormatTooNew, InvalidFile, ReplayKitError, StoreError, UsageError
from replaykit.model.faults import ChaosPlan
from replaykit.model.isolation import NO_CONSENT
from replaykit.model.result import ReplayResult, Verdict
from replaykit.private_files import remove_tree

if TYPE_CHECKING:
    from tempfile import TemporaryDirectory

Work = TypeVar("Work")
Result = TypeVar("Result")

# The number of items per worker that may be in progress or waiting to be yielded, because they stay in memory.
_AHEAD = 32


def cores() -> int:
    """Return the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool:
    """Replay cases in parallel, each in its own process.

    >>> with rk.Pool("my_agent:answer", workers=2) as pool:
    ...     [result.verdict.value for result in pool.replay(["cases/refunds"])]
    ['fixed']

    The agent is a function of a module, its name (`my_agent:answer`), or a `Candidate`. Each worker imports the agent
    once, and forks for each replay, so no replay meets what another one has left behind. With `reuse`, a worker makes
    one replay after the other without a fork: faster, and only right where the agent keeps nothing between two runs.

    Results come in the order of the cases, as soon as they are there, whatever the number of workers. A worker that
    dies costs its case the verdict (`inconclusive`), and no other one. All processes end with the block.
    """

    @checked('rk.Pool("my_agent:answer", workers=2)')
    def __init__(self, agent: CandidateLike, *, workers: int | None = None, reuse: bool = False) -> None:
        """`workers` is the number of parallel replays, by default one per processor."""
        if workers is not None and workers < 1:
            raise UsageError(f"workers is {workers}; it must be at least 1")
        self.workers = workers or cores()
        self.candidate, self._is_own = _candidate_of(agent, reuse=reuse)
        self._directory: TemporaryDirectory[str] | None = None
        self._numbers = itertools.count()
        self._making = Lock()

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._is_own or error is not None:
            self._stop()
        if self._directory is not None:
            remove_tree(self._directory.name)
            self._directory.cleanup()
            self._directory = None

    @checked("pool.replay(cases)")
    def replay(
        self,
        cases: Iterable[ReplayCase | str | os.PathLike[str]],
        *,
        timeout_s: float | None = None,
        evidence: str | os.PathLike[str] | None = None,
        chaos: ChaosPlan | None = None,
        live: Sequence[str] = (),
        allow_connect: Sequence[str] = (),
        allow_write: Sequence[str | os.PathLike[str]] = (),
    ) -> Iterator[ReplayResult]:
        """Yield the result of each case, in the order of the cases. What is named means the same as in `rk.replay`.

        Cases are taken from the iterable as they are needed, so they need not be in memory together.
        """
        consent = NO_CONSENT
        if live or allow_connect or allow_write:
            from replaykit.candidates.consent import consent_of  # noqa: PLC0415 (few replays have live calls)

            consent = consent_of(live, allow_connect, allow_write)

        def world(case: ReplayCase | str | os.PathLike[str]) -> ReplayCase:
            subject = with_consent(case if isinstance(case, ReplayCase) else subject_of(case), consent)
            return subject if chaos is None else with_chaos(subject, chaos)

        files = None if evidence is None else EvidenceFiles(root=Path(evidence), of_passed=True)
        return self.run(map(world, cases), lambda case: self.replay_one(case, timeout_s=timeout_s, evidence=files))

    def run(self, work: Iterable[Work], one: Callable[[Work], Result]) -> Iterator[Result]:
        """Yield the result of `one` for each item in order, running as many in parallel as there are workers.

        An exception, or an early end of the iteration, stops the agent.
        """
        if self.workers == 1:
            yield from map(one, work)
            return
        from concurrent.futures import Future, ThreadPoolExecutor  # noqa: PLC0415 (slow to import)

        build_types()
        with ThreadPoolExecutor(max_workers=self.workers, thread_name_prefix="replaykit-pool") as threads:
            waiting: deque[Future[Result]] = deque()
            try:
                for piece in work:
                    waiting.append(threads.submit(one, piece))
                    # Yield finished results at once, so that they do not pile up in memory.
                    while waiting[0].done() or len(waiting) >= _AHEAD * self.workers:
                        yield waiting.popleft().result()
                        if not waiting:
                            break
                while waiting:
                    yield waiting.popleft().result()
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                self._stop()
                raise

    def replay_one(
        self,
        case: ReplayCase,
        *,
        timeout_s: float | None = None,
        evidence: EvidenceFiles | None,
        is_kept: Callable[[ReplayResult], bool] = lambda result: result.verdict is not Verdict.FIXED,
    ) -> ReplayResult:
        """Replay one case in this thread. `is_kept` decides which results leave files, unless all of them do."""
        if evidence is not None and evidence.of_passed:
            return replay(case, self.candidate, timeout_s=timeout_s, evidence=evidence.root)
        workspace = self.new_directory()
        try:
            result = replay_once(case, self.candidate, workspace, timeout_s)
            if evidence is None or not is_kept(result):
                return result
            directory = new_workspace(evidence.root, case.id)
            move_files(workspace, directory)
            return write_evidence(directory, replace(result, directory=str(directory)), case.scenario.input_json)
        finally:
            remove_tree(workspace)

    def new_directory(self) -> Path:
        """Create a directory for the files of one run. It is deleted with the pool."""
        from tempfile import TemporaryDirectory  # noqa: PLC0415 (slow to import, and many replays leave evidence)

        with self._making:
            if self._directory is None:
                self._directory = TemporaryDirectory(prefix="replaykit-", ignore_cleanup_errors=True)
        directory = Path(self._directory.name) / str(next(self._numbers))
        directory.mkdir()
        return directory

    def _stop(self) -> None:
        if isinstance(self.candidate, Stoppable):
            self.candidate.stop()


def build_types() -> None:
    """Make msgspec build its decoders before threads start.

    msgspec builds them on first use, and if two threads do that at once, one sees a half-built type and the process
    crashes. Building them takes 20 ms, once.
    """
    for module in _MODULES_OF_VALUES:
        import_module(module)
    waiting = [msgspec.Struct]
    while waiting:
        found = waiting.pop()
        waiting += found.__subclasses__()
        with contextlib.suppress(TypeError, NameError):  # never decoded from JSON
            msgspec.json.Decoder(found)


# Modules with structs that replays import lazily.
_MODULES_OF_VALUES = (
    "replaykit.candidates.output",
    "replaykit.candidates.packed_events",
    "replaykit.candidates.worker_protocol",
    "replaykit.cases.fixture_reader",
    "replaykit.judges.judgement_store",
)


def move_files(source: Path, target: Path) -> None:
    """Move the files of a run to their final directory."""
    import shutil  # noqa: PLC0415 (slow to import, and most runs leave no files)

    try:
        for file in source.iterdir():
            shutil.move(file, target / file.name)
    except OSError as error:
        raise StoreError(f"{target}: the evidence cannot be written: {error.strerror}") from None


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
    """Return the result of each case in order; an unusable case gives an error.

    If a case's fixtures or trace turn out to be invalid, raise; with `on_wrong`, report that to it and give an error
    instead.
    """
    files = None if evidence is None else EvidenceFiles(root=evidence, of_passed=True)
    with Pool(candidate, workers=max(jobs, 1)) as pool:

        def one(case: ReplayCase | Unusable) -> ReplayResult:
            try:
                if isinstance(case, Unusable):
                    return failed_to_run(case.id, case.reason)
                return pool.replay_one(case, timeout_s=timeout_s, evidence=files)
            except (InvalidFile, FormatTooNew) as error:
                if on_wrong is None:
                    raise
                on_wrong(error)
                return failed_to_run(case.id, str(error))
            finally:
                on_done()

        return list(pool.run(cases, one))


def _candidate_of(agent: CandidateLike, *, reuse: bool) -> tuple[Candidate, bool]:
    """Return the candidate, and whether the pool created it and so must stop it."""
    directories: tuple[str, ...] = (os.getcwd(),)
    if isinstance(agent, Candidate):
        if reuse:
            raise UsageError(
                "reuse is for agents in Python", hint="Give the pool a function, or its name as module:function."
            )
        return agent, False
    if isinstance(agent, str):
        if not is_spec(agent):
            return candidate_for(agent), True
    elif callable(agent):
        agent, directory = _name_of(agent)
        directories = (directory, *directories)
    else:
        raise UsageError(f"a {type(agent).__name__} is not an agent: give a function, `module:function` or a Candidate")
    from replaykit.candidates.worker_protocol import WorkerJob  # noqa: PLC0415 (import only what this type of agent needs)
    from replaykit.candidates.workers import WorkerCandidate  # noqa: PLC0415

    return WorkerCandidate(WorkerJob(spec=agent, sort="python", directories=directories, reuses=reuse)), True


def _name_of(agent: Callable[..., Any]) -> tuple[str, str]:
    """Return the name by which a worker can import a function, and the directory to import it from."""
    module = sys.modules.get(getattr(agent, "__module__", None) or "")
    found: Any = module
    for name in getattr(agent, "__qualname__", "").split("."):
        found = getattr(found, name, None)
    file = getattr(module, "__file__", None)
    if module is None or module.__name__ == "__main__" or found is not agent or file is None:
        shown = getattr(agent, "__qualname__", type(agent).__qualname__)
        raise UsageError(
            f"no other process can import {shown}: the pool takes functions of modules",
            hint="Put it into a module of its own, and give the pool the function or its name as module:function.",
        )
    is_package = Path(file).stem == "__init__"
    depth = module.__name__.count(".") + is_package
    return f"{module.__name__}:{agent.__qualname__}", str(Path(file).absolute().parents[depth])
