"""A failed run becomes a case directory, all of it or none; and the case can tell a bad agent from a good one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from replaykit.candidates.output import parse_output
from replaykit.cases import scaffold as scaffolding
from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.scaffold import case_of, scaffold
from replaykit.checks.verdict import judge_run
from replaykit.errors import ReplayKitError, UsageError
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.isolation import kernel
from replaykit.model.matching import OnMiss
from replaykit.model.result import Verdict
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

EXAMPLES = Path(__file__).parents[2] / "examples"
TRACES = sorted((EXAMPLES / "traces").glob("*.json"))
SEARCH_LOOP = EXAMPLES / "traces" / "search-loop.json"
HEALTHY = TraceRun(id="fine", status=RunStatus.SUCCESS, input_json=raw("Hi"), output_json=raw("Hello"))


def scaffolded(trace: Path, out: Path, **options) -> ReplayCase:
    text = trace.read_bytes()
    imported = import_source(Source(text, str(trace)))
    return scaffold(imported.runs[0], out, source_text=text, source_format=imported.format, **options)


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file.relative_to(directory)): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def test_the_quick_start_makes_the_four_things_it_names(tmp_path):
    case = scaffolded(SEARCH_LOOP, tmp_path / "cases" / "search-loop")

    files = contents(tmp_path / "cases" / "search-loop")
    assert sorted(files) == ["case.yaml", "fixtures/lookup_billing.json", "notes.md", "source-trace.json"]
    assert files["source-trace.json"] == SEARCH_LOOP.read_bytes()
    assert (case.id, case.source.run, case.source.format) == ("search-loop", "run-billing-2024-0312", "replaykit")
    assert case.scenario.input == "Why was I charged $49.99?"
    assert case.scenario.clock == "2024-03-12T14:32:00Z"
    assert [(a.kind, a.value) for a in case.observed] == [
        ("status_is", "error"),
        ("max_tool_calls", {"tool": "lookup_billing", "count": 5}),
        ("final_output_exists", False),
    ]
    assert case.semantic == ("The response addresses the user's question correctly",)
    assert case == load_case(tmp_path / "cases" / "search-loop" / "case.yaml")
    assert os.listdir(tmp_path / "cases") == ["search-loop"], "the draft is gone"


def test_the_fixtures_are_the_answered_calls(tmp_path):
    run = import_trace(SEARCH_LOOP).runs[0]

    scaffolded(SEARCH_LOOP, tmp_path / "c")

    frozen = read_fixtures(tmp_path / "c")
    assert [(call.seq, call.name, call.arguments, call.result) for call in frozen] == [
        (call.seq, call.name, call.arguments, call.result) for call in run.calls
    ]


def test_who_asks_again_is_shown_the_same_wall_and_others_stop_at_a_miss(tmp_path):
    loop = scaffolded(SEARCH_LOOP, tmp_path / "loop")
    ignored = scaffolded(EXAMPLES / "traces" / "ignored-tool-error.json", tmp_path / "ignored")
    other = scaffolded(EXAMPLES / "traces" / "prompt-injection.json", tmp_path / "other")

    assert loop.scenario.match.on_miss is OnMiss.REPEAT
    assert ignored.scenario.match.on_miss is OnMiss.REPEAT, "a fix may try again"
    assert other.scenario.match.on_miss is OnMiss.ERROR


def test_the_notes_tell_what_happened_when(tmp_path):
    scaffolded(SEARCH_LOOP, tmp_path / "c", remarks=["event 9: unknown event type 'zzz'; kept as a note"])

    notes = (tmp_path / "c" / "notes.md").read_text()
    assert "- Tool 'lookup_billing' called 5 times (event 5)" in notes
    assert (
        '**1 lookup_billing({"user_id":"usr_8821"})** (+0.4 s, took 5.0 s)\n> ✗ Error: billing service timeout  \n'
    ) in notes
    assert "**6 error** (+28.2 s)\n> Error: Max tool call limit exceeded. Agent terminated.  \n" in notes
    looped = notes.partition("**5 lookup_billing")[2]
    assert looped.splitlines()[3] == "**⚠ Tool 'lookup_billing' called 5 times**", "marked where it happened"
    assert "- event 9: unknown event type 'zzz'; kept as a note" in notes


def test_notes_stay_a_conversation_whatever_the_run_says(tmp_path):
    events = [{"type": "message", "role": "user", "content": "a | b\n\n# <b>`c`</b> [x](y) | d"}]
    trace = {"run_id": "r|1", "status": "error", "events": events}
    run = import_source(Source(json.dumps(trace).encode(), "t.json")).runs[0]

    scaffold(run, tmp_path / "c")

    notes = (tmp_path / "c" / "notes.md").read_text()
    assert "**0 user**\n> a \\| b  \n> \\# \\<b>\\`c\\`\\</b> \\[x](y) \\| d  \n" in notes


def test_a_run_without_a_trace_leaves_its_log_and_can_be_read_again(tmp_path):
    run = import_trace(SEARCH_LOOP).runs[0]

    case = scaffold(run, tmp_path / "c")

    assert case.source.format == "run_log"
    assert case.trace_path is not None
    assert import_trace(case.trace_path).runs == (run,)


def test_a_failure_no_detector_knows_still_becomes_a_case_that_says_so(tmp_path):
    case = scaffold(HEALTHY, tmp_path / "c")

    assert case.observed == ()
    assert [assertion.kind for assertion in case.desired] == ["status_is", "final_output_exists"]
    assert "Fill in `observed` in case.yaml by hand" in (tmp_path / "c" / "notes.md").read_text()


def test_id_and_title_can_be_given_and_an_odd_directory_name_still_gives_an_id(tmp_path):
    named = scaffold(HEALTHY, tmp_path / "a", case_id="my-case", title="It: went #wrong")
    odd = scaffold(HEALTHY, tmp_path / "-what: a * näme? ")

    assert (named.id, named.title) == ("my-case", "It: went #wrong")
    assert odd.id == "what-a-name"
    assert scaffold(HEALTHY, tmp_path / "検索ループ").id.isascii()


def test_a_bad_id_leaves_nothing_behind(tmp_path):
    with pytest.raises(UsageError, match="no case"):
        scaffold(HEALTHY, tmp_path / "c", case_id="../up")

    assert os.listdir(tmp_path) == []


def test_a_directory_with_something_in_it_is_left_alone(tmp_path):
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "precious.txt").write_text("mine")

    with pytest.raises(UsageError, match="not empty"):
        scaffold(HEALTHY, tmp_path / "c")
    with pytest.raises(UsageError, match=r"holds no case.yaml"):
        scaffold(HEALTHY, tmp_path / "c", force=True)

    assert contents(tmp_path) == {"c/precious.txt": b"mine"}


def test_an_empty_directory_is_filled(tmp_path):
    (tmp_path / "c").mkdir()

    assert scaffold(HEALTHY, tmp_path / "c").id == "c"


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "c").write_text("mine")

    with pytest.raises(UsageError, match="is a file"):
        scaffold(HEALTHY, tmp_path / "c", force=True)


def test_force_replaces_a_case_and_nothing_of_the_old_one_stays(tmp_path):
    scaffolded(SEARCH_LOOP, tmp_path / "c")

    scaffold(HEALTHY, tmp_path / "c", force=True)

    assert sorted(contents(tmp_path)) == ["c/case.yaml", "c/notes.md", "c/source-trace.json"]


@pytest.mark.parametrize("broken", ["dump_case", "write_fixtures", "load_case", "render_notes"])
def test_a_crash_half_way_leaves_what_was_there(tmp_path, monkeypatch, broken):
    scaffolded(SEARCH_LOOP, tmp_path / "c")
    before = contents(tmp_path)

    def crash(*_args, **_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(scaffolding, broken, crash)
    with pytest.raises(KeyboardInterrupt):
        scaffold(HEALTHY, tmp_path / "c", force=True)
    with pytest.raises(KeyboardInterrupt):
        scaffold(HEALTHY, tmp_path / "new")

    assert contents(tmp_path) == before
    assert os.listdir(tmp_path) == ["c"]


def test_a_rename_that_fails_puts_the_old_case_back(tmp_path, monkeypatch):
    scaffolded(SEARCH_LOOP, tmp_path / "c")
    before = contents(tmp_path)
    rename = Path.rename

    def stubborn(self, target):
        if self.name.startswith(".c.") and not self.name.endswith(".old"):
            raise OSError("disk on fire")
        return rename(self, target)

    def unable(*_names):
        raise OSError("no exchange on this file system")

    monkeypatch.setattr(kernel, "exchange", unable)
    monkeypatch.setattr(Path, "rename", stubborn)
    with pytest.raises(ReplayKitError, match="disk on fire"):
        scaffold(HEALTHY, tmp_path / "c", force=True)

    assert contents(tmp_path) == before


def test_a_place_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "file").write_text("in the way")

    with pytest.raises(ReplayKitError, match="could not be written"):
        scaffold(HEALTHY, tmp_path / "file" / "case")


def test_a_case_can_be_had_without_writing_one():
    run = import_trace(SEARCH_LOOP).runs[0]

    case = case_of(run)

    assert case.id == "run-billing-2024-0312"
    assert len(case.observed) == 3
    assert case.scenario.match.on_miss is OnMiss.REPEAT


def replayed(case: ReplayCase, runner: str, output: Path) -> Verdict:
    environment = {
        **os.environ,
        "REPLAYKIT_CASE_PATH": str(case.file),
        "REPLAYKIT_OUTPUT_PATH": str(output),
        "REPLAYKIT_FIXTURES_DIR": str(case.directory / "fixtures"),
        "REPLAYKIT_SOURCE_TRACE_PATH": str(case.trace_path),
    }
    subprocess.run([sys.executable, str(EXAMPLES / "runners" / runner)], env=environment, check=True, timeout=60)
    attempt = parse_output(output.read_bytes())
    result = judge_run(
        case_id=case.id, observed=case.observed, desired=case.desired, semantic=case.semantic, run=attempt.run
    )
    return result.verdict


@pytest.mark.parametrize("trace", TRACES, ids=lambda trace: trace.stem)
def test_the_bad_runner_reproduces_and_the_fixed_one_does_not(tmp_path, trace):
    case = scaffolded(trace, tmp_path / trace.stem)

    assert replayed(case, "reproduce_failure.py", tmp_path / "bad.json") is Verdict.REPRODUCED
    assert replayed(case, "fixed_runner.py", tmp_path / "good.json") is Verdict.FIXED


def test_the_runners_are_driven_by_the_fixtures_not_by_their_own_script(tmp_path):
    case = scaffolded(SEARCH_LOOP, tmp_path / "c")
    fixture = tmp_path / "c" / "fixtures" / "lookup_billing.json"
    frozen = json.loads(fixture.read_text())
    for call in frozen["calls"]:
        call["result"] = "one yearly plan"
    fixture.write_text(json.dumps(frozen))

    assert replayed(case, "reproduce_failure.py", tmp_path / "out.json") is Verdict.FIXED
    assert "one yearly plan" in json.loads((tmp_path / "out.json").read_text())["final_output"]


def test_the_billing_agent_in_python_is_served_from_the_case(tmp_path, monkeypatch):
    from replaykit.candidates.replay import replay

    monkeypatch.syspath_prepend(str(EXAMPLES.parent))
    from examples.agents import billing

    case = scaffolded(SEARCH_LOOP, tmp_path / "c")

    assert replay(case, billing.looping_agent).verdict is Verdict.REPRODUCED
    assert replay(case, billing.patient_agent).verdict is Verdict.FIXED
    with pytest.raises(ConnectionError):
        billing.lookup_billing("usr_8821")


def test_a_run_that_nests_deeper_than_a_case_can_is_refused_whole(tmp_path):
    deep: object = 1
    for _level in range(150):
        deep = [deep]

    with pytest.raises(UsageError, match="nested deeper"):
        scaffold(msgspec.structs.replace(HEALTHY, input_json=raw(deep)), tmp_path / "c")

    assert os.listdir(tmp_path) == []
