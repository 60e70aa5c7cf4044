"""`replay`: any subject, any candidate, one result, and the evidence it leaves."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import Raw

import replaykit as rk
from replaykit.candidates.attempt import Attempt
from replaykit.candidates.evidence import new_workspace
from replaykit.errors import InvalidFile, StoreError, UsageError
from replaykit.model.events import ToolCall
from replaykit.model.result import Evidence, EvidenceSource
from replaykit.model.run import RunStatus, TraceRun

MakeCase = Callable[..., Path]
Runner = Callable[..., str]
EVIDENCE = ["result.json", "stderr.log", "stdout.log", "summary.md"]


@rk.tool
def lookup(user: str) -> str:
    raise AssertionError("the tool was called live")


def looping(question: str) -> str:
    for _ in range(3):
        lookup("u1")
    raise RuntimeError("out of luck")


def patient(question: str) -> str:
    return f"{question} {lookup('u1')}"


@pytest.fixture
def billing(make_case: MakeCase, frozen: Callable[..., ToolCall]) -> Path:
    """A case of a loop: three lookups that time out."""
    return make_case(
        calls=[frozen(n, "lookup", "Error: timeout", user="u1") for n in range(3)],
        observed=[{"status_is": "error"}, {"max_tool_calls": {"tool": "lookup", "count": 3}}],
        desired=[{"status_is": "success"}, {"max_tool_calls": 2}, {"final_output_exists": True}],
    )


REPORTED = {"tool_name": "lookup", "tool_args": {"user": "u1"}, "tool_output": "Error: timeout"}


class Fixed:
    """A candidate of somebody's own making."""

    label = "mine"

    def run(self, case: rk.ReplayCase, workspace: Path, timeout_s: float) -> Attempt:
        self.seen = (case.id, workspace.is_dir(), timeout_s)
        call = ToolCall(
            seq=0, name="lookup", arguments_json=Raw(b'{"user":"u1"}'), result_json=Raw(b'"Error: timeout"')
        )
        run = TraceRun(id="own", status=RunStatus.SUCCESS, output_json=Raw(b'"fine"'), events=(call,), event_count=1)
        return Attempt(run=run)


def names_in(directory: str | os.PathLike[str] | None) -> list[str]:
    return sorted(file.name for file in Path(str(directory)).iterdir())


def snapshot(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


@pytest.mark.parametrize("form", ["directory", "file", "text", "loaded"])
def test_a_case_is_named_by_directory_or_file_or_handed_over(billing: Path, form: str) -> None:
    subject: Any = {
        "directory": billing,
        "file": billing / "case.yaml",
        "text": str(billing),
        "loaded": rk.load_case(billing),
    }[form]

    assert rk.replay(subject, looping).verdict is rk.Verdict.REPRODUCED
    assert rk.replay(subject, patient).verdict is rk.Verdict.FIXED


def test_a_recorded_run_is_its_own_case(store: rk.Store) -> None:
    live = {"up": False}

    @rk.tool
    def ask(user: str) -> str:
        if not live["up"]:
            raise TimeoutError("billing is down")
        return "live"

    def agent(question: str) -> str:
        return ask("u1")

    with pytest.raises(TimeoutError), rk.record("billing", input="why?", store=store) as run:
        agent("why?")
    live["up"] = True
    recorded = store.load(run.id)

    again = rk.replay(recorded, agent)
    idle = rk.replay(recorded, lambda question: "I could not find out.")

    assert again.verdict is rk.Verdict.REPRODUCED, "served from the run, although the service is up again"
    assert again.case_id == "billing"
    assert (idle.verdict, idle.evidence) == (rk.Verdict.INCONCLUSIVE, Evidence(recorded=1))


def test_a_run_is_replayed_against_callables_only(billing: Path, store: rk.Store) -> None:
    with rk.record("agent", store=store) as run:
        pass

    for candidate in ("python runner.py", Fixed()):
        with pytest.raises(UsageError, match="scaffold a case"):
            rk.replay(store.load(run.id), candidate)


def test_a_candidate_may_be_a_command(billing: Path, runner: Runner) -> None:
    result = rk.replay(billing, runner(f"tell(final_output='fine', tool_calls=[{REPORTED}])"))

    assert result.verdict is rk.Verdict.FIXED
    assert result.evidence == Evidence(used=1, recorded=3, how=EvidenceSource.REPORTED)


def test_a_candidate_may_be_an_object_with_run_and_label(billing: Path) -> None:
    candidate = Fixed()

    result = rk.replay(billing, candidate)

    assert (result.verdict, result.candidate) == (rk.Verdict.FIXED, "mine")
    assert candidate.seen == ("billing", True, 60)


def test_the_callers_time_limit_comes_before_the_cases(billing: Path) -> None:
    candidate = Fixed()

    rk.replay(billing, candidate, timeout_s=7)

    assert candidate.seen[2] == 7


@pytest.mark.parametrize("candidate", [None, 42, ["python", "x.py"], object()])
def test_anything_else_is_no_candidate(billing: Path, candidate: Any) -> None:
    with pytest.raises(UsageError, match=rf"cannot take .* \({type(candidate).__name__}\) as `candidate`"):
        rk.replay(billing, candidate)


def test_a_case_that_is_not_there_is_an_invalid_file() -> None:
    with pytest.raises(InvalidFile, match="no such file"):
        rk.replay("cases/none", patient)


def test_a_callable_may_be_a_coroutine_a_method_or_an_object(billing: Path) -> None:
    class Agent:
        async def answer(self, question: str) -> str:
            return lookup("u1")

        def __call__(self, question: str) -> str:
            return lookup("u1")

    for candidate in (Agent().answer, Agent(), lambda question: lookup("u1")):
        assert rk.replay(billing, candidate).verdict is rk.Verdict.FIXED
    assert rk.replay(billing, patient).candidate == "patient"


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
def test_a_coroutine_can_be_replayed_from_inside_a_running_loop(billing: Path) -> None:
    async def agent(question: str) -> str:
        return lookup("u1")

    async def main() -> rk.ReplayResult:
        return rk.replay(billing, agent)

    assert asyncio.run(main()).verdict is rk.Verdict.FIXED


def test_sys_exit_of_a_callable_is_contained(billing: Path) -> None:
    result = rk.replay(billing, lambda question: sys.exit(0))

    assert result.run is not None
    assert (result.run.status, str(result.run.error)) == ("error", "SystemExit: 0")


def test_an_interruption_is_for_the_caller(billing: Path) -> None:
    def interrupted(question: str) -> str:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rk.replay(billing, interrupted)


def test_after_a_replay_the_tools_are_themselves_again(billing: Path) -> None:
    rk.replay(billing, patient)

    with pytest.raises(AssertionError, match="called live"):
        lookup("u1")


def test_the_result_says_what_was_found(billing: Path) -> None:
    result = rk.replay(billing, looping)

    assert result.reproduced is True
    assert not result.passed
    assert [(f.kind, f.holds, f.text) for f in result.observed] == [
        ("status_is", True, "Run ended with error"),
        ("max_tool_calls", True, "Tool 'lookup' called 3 times"),
    ]
    assert [f.holds for f in result.desired] == [False, False, False]


def test_a_case_without_assertions_never_passes(make_case: MakeCase) -> None:
    result = rk.replay(make_case(observed=[], desired=[]), lambda question: "fine")

    assert result.verdict is rk.Verdict.INCONCLUSIVE
    assert "no assertions" in result.reason


def test_the_same_case_and_callable_give_the_same_findings_every_time(billing: Path) -> None:
    def told(candidate: Callable[[str], str]) -> bytes:
        result = rk.replay(billing, candidate)
        assert result.run is not None
        events = [msgspec.structs.replace(event, at=0.0, duration_s=0.0) for event in result.run.events]
        facts = (result.verdict, result.observed, result.desired, result.deviations, result.reason, events)
        return msgspec.json.encode(facts)

    for candidate in (looping, patient):
        assert len({told(candidate) for _ in range(20)}) == 1


async def two_readers(question: str) -> list[list[str]]:
    """Two sub-agents that read the same inbox side by side; what comes depends on who asks."""

    async def reader(name: str) -> list[str]:
        WHO.set(name)
        return [await read_inbox() for _ in range(3)]

    return await asyncio.gather(reader("slow"), reader("quick"))


@rk.tool
async def read_inbox() -> str:
    await asyncio.sleep(0.02 if WHO.get() == "slow" else 0)
    return f"for {WHO.get()}"


WHO: ContextVar[str] = ContextVar("who")


def recorded_readers(store: rk.Store) -> tuple[TraceRun, Any]:
    with rk.record("readers", input="go", store=store) as run:
        run.output = asyncio.run(two_readers("go"))
    return store.load(run.id), run.output


def test_a_parallel_agent_gives_the_same_findings_every_time(store: rk.Store) -> None:
    run, _ = recorded_readers(store)

    results = [rk.replay(run, two_readers) for _ in range(20)]

    assert len({msgspec.json.encode((r.verdict, r.observed, r.desired, r.deviations)) for r in results}) == 1


def test_an_unchanged_parallel_agent_is_given_its_own_answers(store: rk.Store) -> None:
    run, output = recorded_readers(store)

    result = rk.replay(run, two_readers)

    assert result.run is not None
    assert result.run.output == output
    # A busy machine may hold up the recording for so long that its order is noted as undecided.
    assert {deviation.kind for deviation in result.deviations} <= {"undecided"}


def test_a_replay_without_evidence_leaves_nothing(
    billing: Path, runner: Runner, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))
    command = runner("print('hello'); tell(final_output='fine')")
    before = snapshot(Path.cwd())

    for candidate in (patient, command, "false"):
        assert rk.replay(billing, candidate).directory is None

    assert snapshot(Path.cwd()) == before
    assert list(scratch.iterdir()) == []


def test_a_command_leaves_the_five_files_of_the_evidence(billing: Path, runner: Runner) -> None:
    result = rk.replay(billing, runner("tell(final_output='fine')"), evidence="evidence")

    assert names_in(result.directory) == sorted([*EVIDENCE, "runner-output.json"])
    assert json.loads((Path(str(result.directory)) / "runner-output.json").read_text())["final_output"] == "fine"


@pytest.mark.parametrize("candidate", [patient, looping, "false", "no-such-program", Fixed()])
def test_a_candidate_that_writes_no_output_leaves_the_other_four(billing: Path, candidate: Any) -> None:
    result = rk.replay(billing, candidate, evidence="evidence")

    assert names_in(result.directory) == EVIDENCE


def test_the_directory_is_named_by_time_and_case(billing: Path) -> None:
    result = rk.replay(billing, patient, evidence=Path(".replaykit") / "runs")

    stamp, _, name = Path(str(result.directory)).name.rpartition("-")
    assert name == "billing"
    assert abs(time.mktime(time.strptime(stamp, "%Y%m%d-%H%M%S")) - time.mktime(time.gmtime())) < 60
    assert Path(".replaykit/.gitignore").read_text() == "*\n", "evidence holds real data and stays out of git"


def test_the_result_is_kept_as_json(billing: Path) -> None:
    result = rk.replay(billing, looping, evidence="evidence")

    text = (Path(str(result.directory)) / "result.json").read_bytes()
    kept = msgspec.json.decode(msgspec.json.format(text, indent=-1), type=rk.ReplayResult)
    assert kept == result
    assert kept.verdict is rk.Verdict.REPRODUCED
    assert kept.run is not None
    assert len(kept.run.tool_calls) == 3


def test_the_summary_is_for_people(billing: Path) -> None:
    result = rk.replay(billing, looping, evidence="evidence")

    text = (Path(str(result.directory)) / "summary.md").read_text()
    assert text.startswith("# billing: reproduced\n")
    assert "- candidate: `looping`" in text
    assert "- failure reproduced: yes" in text
    assert "- [x] `max_tool_calls`: Tool 'lookup' called 3 times" in text
    assert "- [ ] `status_is`: Run ended with error" in text


def test_the_summary_of_a_divergence_says_where_the_tape_was_left(billing: Path) -> None:
    result = rk.replay(billing, lambda question: lookup("u2"), evidence="evidence")

    text = (Path(str(result.directory)) / "summary.md").read_text()
    assert "## Off the tape" in text
    assert "- missing: run 'billing' left its recording at call 1 of 3" in text


def test_replays_in_the_same_second_do_not_share_a_directory(billing: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(lambda _: rk.replay(billing, patient, evidence="evidence"), range(12)))

    directories = {str(result.directory) for result in results}
    assert len(directories) == 12
    assert names_in("evidence") == sorted(Path(directory).name for directory in directories)
    assert all(names_in(directory) == EVIDENCE for directory in directories)


def test_a_file_on_the_way_to_the_evidence_is_an_error(billing: Path) -> None:
    Path("evidence").write_text("")

    with pytest.raises(StoreError, match="cannot be made"):
        rk.replay(billing, patient, evidence="evidence/deeper")


@pytest.mark.parametrize("in_the_way", ["file", "dangling link"])
def test_a_file_where_the_evidence_should_go_is_an_error(in_the_way: str) -> None:
    if in_the_way == "file":
        Path("evidence").write_text("")
    else:
        Path("evidence").symlink_to("nowhere")
    make = (
        "import pathlib; from replaykit.candidates.evidence import new_workspace as n; n(pathlib.Path('evidence'), 'c')"
    )

    done = subprocess.run([sys.executable, "-c", make], timeout=60, capture_output=True, text=True)

    assert "StoreError" in done.stderr


def test_a_case_id_of_many_wide_characters_has_evidence_too() -> None:
    assert new_workspace(Path("evidence"), "日" * 80).is_dir()


@pytest.mark.parametrize("odd", ["../../etc", "a/b", "a\\b", "a:b", "nul\0"])
def test_an_id_cannot_lead_out_of_the_evidence(odd: str) -> None:
    directory = new_workspace(Path("evidence"), odd)

    assert directory.parent == Path("evidence")
    assert directory.is_dir()


def test_an_error_with_text_that_is_no_unicode_leaves_evidence(billing: Path) -> None:
    def agent(question: str) -> str:
        raise ValueError("bad name \udcff")

    assert names_in(rk.replay(billing, agent, evidence="evidence").directory) == EVIDENCE
