"""The verbs: what each prints, for people and as JSON, and what it leaves alone."""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import replaykit as rk
from replaykit import __version__
from replaykit.cli import VERBS
from replaykit.cli.renames import MOVED, SYNONYMS

Command = Callable[..., Any]
DOCS = Path(__file__).parents[2] / "docs" / "cli.md"
TRACE = {
    "run_id": "run-1",
    "status": "error",
    "events": [
        {"type": "input_message", "content": "why?"},
        {"type": "tool_call", "tool_name": "lookup", "tool_args": {"user": "u1"}},
        {"type": "tool_result", "output": "Error: timeout"},
        {"type": "dance", "content": "unknown"},
        {"type": "error", "error": "gave up after the lookup failed"},
    ],
}


@pytest.fixture
def trace(own_directory: Path) -> Path:
    file = own_directory / "trace.json"
    file.write_text(json.dumps(TRACE))
    return Path(file.name)


def snapshot() -> dict[str, bytes]:
    """Every file below the working directory."""
    return {str(file): file.read_bytes() for file in Path().rglob("*") if file.is_file()}


def damage(store: Path, sql: str) -> None:
    with sqlite3.connect(store) as db:
        db.execute(sql)
    db.close()


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_explains_itself(replaykit: Command, verb: str) -> None:
    for option in ("--help", "-h"):
        ran = replaykit(verb, option)

        assert (ran.code, ran.err) == (0, "")
        assert ran.out.startswith(f"Usage: replaykit {verb}")
        assert VERBS[verb] in " ".join(ran.out.split())


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_is_in_the_documentation(verb: str) -> None:
    assert f"replaykit {verb}" in DOCS.read_text(encoding="utf-8")


def test_help_lists_every_verb_and_the_exit_codes(replaykit: Command) -> None:
    ran = replaykit("--help")

    assert ran.code == 0
    assert all(f"  {verb} " in ran.out for verb in VERBS if verb != "help")
    assert "Exit codes: 0 passed, 1 the agent failed, 2 wrong usage, 3 could not do it" in ran.out


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_told(replaykit: Command, option: str) -> None:
    assert replaykit(option) == (0, f"replaykit {__version__}\n", "")


@pytest.mark.parametrize(("wrong", "right"), [("rplay", "replay"), ("scafold", "scaffold"), ("shows", "show")])
def test_an_unknown_verb_is_answered_with_the_nearest(replaykit: Command, wrong: str, right: str) -> None:
    ran = replaykit(wrong)

    assert (ran.code, ran.out) == (2, "")
    assert f"no such command {wrong!r}; did you mean {right!r}?" in ran.err


@pytest.mark.parametrize("word", SYNONYMS)
def test_another_tools_word_for_a_verb_is_answered_with_ours(replaykit: Command, word: str) -> None:
    assert f"no such command {word!r}; did you mean {SYNONYMS[word]!r}?" in replaykit(word).err


def test_no_synonym_hides_a_verb() -> None:
    assert not SYNONYMS.keys() & {*VERBS, *(words[0] for words in MOVED)}


@pytest.mark.parametrize(("word", "command"), SYNONYMS.items())
def test_a_word_of_another_tool_leads_to_a_command(replaykit: Command, word: str, command: str) -> None:
    assert f"did you mean {command!r}?" in replaykit(word).err
    assert replaykit(*command.split(), "--help").code == 0


def test_a_verb_like_no_other_is_answered_with_all(replaykit: Command) -> None:
    ran = replaykit("xyzzy")

    assert ran.code == 2
    assert f"valid: {', '.join(sorted(VERBS))}" in ran.err


def test_scaffold_makes_a_case_and_says_what_is_in_it(replaykit: Command, trace: Path) -> None:
    ran = replaykit("scaffold", trace, "--out", "cases/timeout")

    assert ran.code == 0
    assert "Created cases/timeout" in ran.out
    for name in ("case.yaml", "source-trace.json", "fixtures/lookup.json", "notes.md"):
        assert f"  {name}\n" in ran.out
        assert (Path("cases/timeout") / name).is_file()
    assert "status_is: error" in ran.out
    assert "Next: replaykit replay cases/timeout" in ran.out


def test_what_a_trace_holds_that_has_no_word_is_noted_on_stderr(replaykit: Command, trace: Path) -> None:
    ran = replaykit("scaffold", trace, "--out", "cases/timeout")

    assert ran.err.splitlines()[0] == "note: event 3: unknown event type 'dance'; kept as a note"


def test_scaffold_json_has_the_documented_keys(replaykit: Command, trace: Path) -> None:
    ran = replaykit("scaffold", trace, "--out", "cases/timeout", "--json")

    keys = {"replaykit", "id", "directory", "files", "observed", "desired", "semantic", "ready", "problem", "checks"}
    assert ran.json.keys() == keys
    assert (ran.json["id"], ran.json["directory"]) == ("timeout", "cases/timeout")
    assert {"status_is": "error"} in ran.json["observed"]


def test_scaffold_takes_a_recorded_run_too(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("scaffold", "billing")

    assert ran.code == 0
    assert "Created cases/billing" in ran.out
    assert rk.load_case("cases/billing").scenario.input == "why?"


def test_scaffold_does_not_replace_a_case_unasked(replaykit: Command, trace: Path) -> None:
    replaykit("scaffold", trace, "--out", "cases/timeout")
    before = snapshot()

    refused = replaykit("scaffold", trace, "--out", "cases/timeout", "--title", "Other")

    assert refused.code == 2
    assert "--force" in refused.err
    assert snapshot() == before
    assert replaykit("scaffold", trace, "--out", "cases/timeout", "--title", "Other", "--force").code == 0
    assert rk.load_case("cases/timeout").title == "Other"


def test_lint_says_that_a_sound_case_is(replaykit: Command, case: Path, bad: str, good: str) -> None:
    replaykit("prove", case, "--bad", bad, "--good", good)

    assert replaykit("lint", case) == (0, "1 case: ok\n", "")


def test_lint_shows_each_problem_with_file_line_and_what_to_do(replaykit: Command, case: Path) -> None:
    (case / "case.yaml").write_text("replaykit: 1\nid: billing\ndesird:\n  - status_is: success\n")

    ran = replaykit("lint", case)

    assert ran.code == 1
    assert "cases/billing/case.yaml:3: error: unknown key 'desird'" in ran.out
    assert "did you mean 'desired'?" in ran.out
    assert "[unknown-key]" in ran.out


def test_lint_json_has_the_documented_keys(replaykit: Command, make_case: Command) -> None:
    ran = replaykit("lint", make_case(desired=[]), "--json")

    assert ran.json.keys() == {"replaykit", "problems"}
    problem, _ = ran.json["problems"]  # and that it was never seen red
    assert problem.keys() == {"file", "line", "severity", "code", "message", "hint"}
    assert (problem["severity"], problem["code"]) == ("warning", "no-desired")


def test_warnings_fail_when_they_are_asked_to(replaykit: Command, make_case: Command) -> None:
    case = make_case(desired=[])

    assert replaykit("lint", case).code == 0
    assert replaykit("lint", case, "--strict").code == 1


def test_replay_prints_the_verdict_on_stdout_and_the_evidence_on_stderr(
    replaykit: Command, case: Path, good: str
) -> None:
    ran = replaykit("replay", case, "--runner-cmd", good)

    assert "Result: FIXED" in ran.out
    assert "  Observed failure reproduced: No\n" in ran.out
    assert "  Desired assertions: 2/2 passed\n" in ran.out
    assert "  Semantic checks needing review: 1\n" in ran.out
    evidence, isolation = ran.err.strip().splitlines()
    assert evidence.startswith("Evidence: .replaykit/runs/")
    assert Path(evidence.split()[-1], "result.json").is_file()
    assert isolation == "  Isolation: process"


def test_replay_says_what_failed(replaykit: Command, case: Path, bad: str) -> None:
    ran = replaykit("replay", case, "--runner-cmd", bad)

    assert "Result: FAILURE REPRODUCED" in ran.out
    assert "✗ status_is: expected status success, got status error (Error: out of luck)" in ran.out


def test_replay_says_why_it_cannot_tell(replaykit: Command, case: Path, runner: Command) -> None:
    ran = replaykit("replay", case, "--runner-cmd", runner("crash", code="sys.exit('no key')"))

    assert "Result: INCONCLUSIVE" in ran.out
    assert "the runner ended with exit code 1" in ran.out
    assert "no key" in ran.out
    assert "Observed failure reproduced" not in ran.out, "nothing was found out"


def test_replay_json_has_the_documented_keys(replaykit: Command, case: Path, bad: str) -> None:
    ran = replaykit("replay", case, "--runner-cmd", bad, "--json")

    assert ran.err == ""
    assert ran.json.keys() == {"replaykit", "passed", "results"}
    assert ran.json["passed"] is False
    (result,) = ran.json["results"]
    assert (result["case_id"], result["verdict"], result["reproduced"]) == ("billing", "reproduced", True)
    assert result.keys() >= {"candidate", "observed", "desired", "semantic", "run", "duration_s", "evidence"}


def test_replay_repeats_and_gives_a_line_each(replaykit: Command, case: Path, good: str) -> None:
    ran = replaykit("replay", case, "--runner-cmd", good, "--repeat", 3, "-j", 3, "--evidence", "proof")

    assert [line.split()[:2] for line in ran.out.splitlines()[:3]] == [["fixed", "billing"]] * 3
    assert ran.out.endswith("3 replays: 3 fixed\n")
    assert ran.err == "Evidence: proof\nIsolation: process\n"
    assert len(list(Path("proof").iterdir())) == 3


def test_the_same_case_named_twice_is_replayed_once(replaykit: Command, case: Path, good: str) -> None:
    ran = replaykit("replay", case, case / "case.yaml", case, "--runner-cmd", good, "--json")

    assert len(ran.json["results"]) == 1


def test_evidence_is_no_case(replaykit: Command, make_case: Command, good: str) -> None:
    make_case()
    kept = Path(".replaykit/cases/old")
    kept.mkdir(parents=True)
    (kept / "case.yaml").write_text("not a case")

    assert replaykit("replay", ".", "--runner-cmd", good).code == 0


def test_prove_shows_red_and_green(replaykit: Command, case: Path, bad: str, good: str) -> None:
    ran = replaykit("prove", case, "--bad", bad, "--good", good)

    assert ran.code == 0
    red, green = (line.split()[:3] for line in ran.out.splitlines()[:2])
    assert (red, green) == (["✓", "bad", "reproduced"], ["✓", "good", "fixed"])
    assert "billing: proven: red → green" in ran.out


def test_prove_says_which_of_the_two_disappoints(replaykit: Command, case: Path, good: str) -> None:
    ran = replaykit("prove", case, "--bad", good, "--good", good)

    assert ran.code == 1
    assert "✗ bad   fixed" in ran.out
    assert "expected reproduced" in ran.out
    assert "billing: not proven" in ran.out


def test_prove_says_what_it_wanted_of_a_candidate_that_cannot_be_run(replaykit: Command, case: Path, good: str) -> None:
    ran = replaykit("prove", case, "--bad", "no_such_module:run", "--good", good)

    assert ran.code == 3
    assert "expected reproduced: the agent 'no_such_module:run' cannot be loaded" in ran.out


def test_prove_json_has_the_documented_keys(replaykit: Command, case: Path, bad: str, good: str) -> None:
    ran = replaykit("prove", case, "--bad", bad, "--good", good, "--json")

    assert ran.json.keys() == {"replaykit", "passed", "results"}
    assert ran.json["passed"] is True
    assert [result["verdict"] for result in ran.json["results"]] == ["reproduced", "fixed"]


def test_prove_takes_python_functions(replaykit: Command, case: Path) -> None:
    Path("agent.py").write_text("def bad(q): raise RuntimeError('x')\ndef good(q): return 'fine'")

    assert replaykit("prove", case, "--bad", "agent:bad", "--good", "agent:good").code == 0


def test_runs_lists_the_newest_first(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("runs")

    head, *rows = ran.out.splitlines()
    assert head.split()[:2] == ["run", "status"]
    assert ["error" in rows[0], "success" in rows[1]] == [True, True]
    assert "'buy it' → 'bought'" in rows[1]


def test_runs_can_be_narrowed(replaykit: Command, recorded: Path) -> None:
    def names(*options: object) -> list[str]:
        return [run["name"] for run in replaykit("runs", "--json", *options).json["runs"]]

    assert names() == ["billing", "checkout"]
    assert names("-n", 1) == ["billing"]
    assert names("--status", "success") == ["checkout"]
    assert names("--name", "billing") == ["billing"]
    assert names("--name", "other") == []


def test_runs_json_has_the_documented_keys(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("runs", "--json")

    assert ran.json.keys() == {"replaykit", "runs"}
    assert ran.json["runs"][1].keys() >= {"id", "name", "status", "started_at", "ended_at", "input", "output", "tags"}


def test_a_store_without_runs_says_so_on_stderr(replaykit: Command, tmp_path: Path) -> None:
    rk.Store.open(tmp_path / "empty.db").close()

    assert replaykit("runs", "--store", "empty.db") == (0, "", "no runs\n")
    assert replaykit("runs", "--store", "empty.db", "--json").json == {"replaykit": 1, "runs": []}


def test_the_store_may_be_named_by_the_environment(
    replaykit: Command, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPLAYKIT_STORE", str(recorded.rename("moved.db")))

    assert len(replaykit("runs", "--json").json["runs"]) == 2


def test_show_tells_a_run_by_name_by_id_and_by_the_beginning_of_one(replaykit: Command, recorded: Path) -> None:
    by_name = replaykit("show", "checkout")
    run_id = by_name.out.split()[0]

    assert by_name.code == 0
    assert "success  checkout" in by_name.out
    assert "lookup(user='u1') → 'charges of u1'" in by_name.out
    assert replaykit("show", run_id) == by_name
    assert replaykit("show", run_id[:-2]) == by_name


def test_show_tells_how_a_run_failed(replaykit: Command, recorded: Path) -> None:
    assert "error    RuntimeError: out of luck" in replaykit("show", "billing").out


def test_show_json_is_the_run_log(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("show", "checkout", "--json")

    assert ran.json.keys() == {"replaykit", "run"}
    assert [event["type"] for event in ran.json["run"]["events"]] == ["message", "decision", "tool_call"]


def test_a_step_is_shown_by_number_and_by_name(replaykit: Command, recorded: Path) -> None:
    by_name = replaykit("show", "checkout", "--step", "act")

    assert by_name.code == 0
    assert "arguments  {'user': 'u1'}" in by_name.out
    assert replaykit("show", "checkout", "--step", 2) == by_name
    assert replaykit("show", "checkout", "--step", -1) == by_name
    assert replaykit("show", "checkout", "--event", 2) == by_name
    assert replaykit("show", "billing", "--step", "step_1").code == 0, "a run without steps has one per call"


def test_an_event_that_is_not_there_is_answered_with_those_that_are(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("show", "checkout", "--event", 7)

    assert ran.code == 2
    assert "has no event 7\nIt has events 0 to 2" in ran.err


def test_the_newest_run_and_the_newest_that_failed_have_names(replaykit: Command, recorded: Path) -> None:
    with rk.Store.open(recorded) as store, rk.record("afterwards", store=store):
        pass

    assert replaykit("show", "last", "--json").json["run"]["name"] == "afterwards"
    assert replaykit("show", "last-failed", "--json").json["run"]["name"] == "billing"


def test_a_step_in_json_holds_its_events(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("show", "checkout", "--step", "plan", "--json")

    assert ran.json.keys() == {"replaykit", "events"}
    (event,) = ran.json["events"]
    assert (event["type"], event["content"]) == ("decision", "look first")


@pytest.mark.parametrize("step", ["7", "0", "-3", "actt", "-"])
def test_a_step_that_is_not_there_is_answered_with_those_that_are(
    replaykit: Command, recorded: Path, step: str
) -> None:
    ran = replaykit("show", "checkout", "--step", step)

    assert (ran.code, ran.out) == (2, "")
    assert f"has no step {step!r}" in ran.err
    assert "It has events 0 to 2; steps plan, act" in ran.err


def test_a_run_that_is_not_there_is_said_with_what_to_type(replaykit: Command, recorded: Path) -> None:
    ran = replaykit("show", "chekout")

    assert (ran.code, ran.out) == (3, "")
    assert "no run 'chekout'" in ran.err
    assert ran.err.rstrip().endswith("replaykit runs")


def test_verify_says_that_a_sound_store_is(replaykit: Command, recorded: Path) -> None:
    assert replaykit("store", "verify") == (0, "2 runs, none damaged\n", "")
    assert replaykit("store", "verify", "--json").json == {"replaykit": 1, "whole": True, "damage": []}


def test_verify_names_the_damage(replaykit: Command, recorded: Path) -> None:
    damage(recorded, "UPDATE packs SET data = x'0011223344' WHERE key >> 32 = 1")

    ran = replaykit("store", "verify")
    told = replaykit("store", "verify", "--json")

    assert ran.code == told.code == 3
    assert "damaged  run 1, pack at event 0: the checksum does not match" in ran.out
    assert ran.out.endswith("1 damaged\n")
    assert told.json.keys() == {"replaykit", "whole", "damage"}
    assert told.json["whole"] is False
    assert told.json["damage"][0].keys() == {"where", "what"}


@pytest.mark.parametrize(
    "sql", ["UPDATE runs SET status = 'cancelled' WHERE name = 'billing'", "DELETE FROM packs WHERE key >> 32 = 2"]
)
def test_verify_names_the_run_that_is_damaged(replaykit: Command, recorded: Path, sql: str) -> None:
    run_id = replaykit("runs", "--name", "billing", "--json").json["runs"][0]["id"]
    damage(recorded, sql)

    assert run_id in replaykit("store", "verify").out


def test_verify_of_a_file_that_is_no_database_names_the_file(replaykit: Command, tmp_path: Path) -> None:
    (tmp_path / "s.db").write_bytes(b"not a database" * 100)

    ran = replaykit("store", "verify", "--store", "s.db")

    assert ran.code == 3
    assert "s.db" in ran.out + ran.err


def test_init_prepares_a_project_once(replaykit: Command) -> None:
    first = replaykit("init")
    Path("cases/README.md").write_text("my own words")
    before = snapshot()
    second = replaykit("init")

    assert first.code == second.code == 0
    assert [line.split()[0] for line in first.out.splitlines()[:4]] == ["created"] * 4
    assert [line.split()[0] for line in second.out.splitlines()[:4]] == ["exists"] * 4
    assert rk.load_project("replaykit.yaml").cases == (Path("cases"),)
    assert Path(".replaykit/.gitignore").read_text() == "*\n"
    assert snapshot() == before


def test_init_prepares_another_directory(replaykit: Command) -> None:
    assert replaykit("init", "new/project").code == 0

    made = [".replaykit/.gitignore", ".replaykit/replaykit.schema.json", "cases/README.md", "replaykit.yaml"]
    assert sorted(snapshot()) == [f"new/project/{name}" for name in made]


AGENT_FILE = """
import replaykit as rk

raise SystemExit("init must not run this")

@rk.record("support")
async def answer(question): ...

def helper(): ...
"""


def test_init_finds_the_agent_that_is_recorded_and_writes_a_configuration_with_it(replaykit: Command) -> None:
    Path("shop").mkdir()
    Path("shop/agents.py").write_text(AGENT_FILE)
    Path("broken.py").write_text("def (")

    ran = replaykit("init")

    assert "The agent is shop.agents:answer." in ran.out
    agent = rk.load_project("replaykit.yaml").agent
    assert (agent.type, agent.endpoint) == ("python", "shop.agents:answer")
    written = Path("replaykit.yaml").read_text().splitlines()
    schema = json.loads(Path(written[0].removeprefix("# yaml-language-server: $schema=")).read_text())
    jsonschema.Draft202012Validator(schema).validate({"replaykit": 1, "agent": {"type": "python", "endpoint": "a:b"}})


def test_init_chooses_among_several_agents_only_if_it_is_told(replaykit: Command) -> None:
    for name in ("one", "two"):
        Path(f"{name}.py").write_text("@record\ndef answer(question): ...\n")

    assert "The agent is" not in replaykit("init").out
    Path("replaykit.yaml").unlink()
    assert "The agent is two:answer." in replaykit("init", "--agent", "two:answer").out


@pytest.mark.parametrize(
    ("options", "kind"),
    [(("--endpoint", "http://127.0.0.1:8000/ask"), "http"), (("--runner-cmd", "node agent.mjs"), "command")],
)
def test_init_takes_any_kind_of_agent(replaykit: Command, options: tuple[str, str], kind: str) -> None:
    assert replaykit("init", *options).code == 0

    agent = rk.load_project("replaykit.yaml").agent
    assert (agent.type, agent.endpoint) == (kind, options[1])
    assert replaykit("init", *options, "--agent", "a:b").code == 2


def test_demo_shows_both_verdicts_and_leaves_nothing_behind(
    replaykit: Command, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path_factory.mktemp("scratch")
    monkeypatch.setattr(tempfile, "tempdir", str(scratch))

    ran = replaykit("demo")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.index("Result: FAILURE REPRODUCED") < ran.out.index("Result: FIXED")
    assert "BillingTimeout: billing service timeout" in ran.out
    assert snapshot() == {}
    assert list(scratch.iterdir()) == []


def test_demo_keeps_its_store_and_case_where_it_is_told(replaykit: Command) -> None:
    assert replaykit("demo", "--out", "kept").code == 0
    assert replaykit("demo", "--out", "kept").code == 0, "and can be run again there"

    assert len(replaykit("runs", "--store", "kept/.replaykit/store.db", "--json").json["runs"]) == 2
    assert replaykit("lint", "kept/cases", "--strict").code == 0
    again = replaykit("replay", "kept/cases/billing-loop", "--agent", "replaykit.demo:patient_agent")
    assert again.code == 0


def test_the_schema_is_json_that_accepts_a_case(replaykit: Command, case: Path) -> None:
    schema = replaykit("help", "schema", "case").json

    jsonschema.validate(json.loads((case / "case.yaml").read_text()), schema)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"replaykit": 1, "id": "x", "desird": []}, schema)


READING = {
    "lint": ("lint", "cases"),
    "lint json": ("lint", "cases", "--json"),
    "schema": ("schema",),
    "help": ("--help",),
    "version": ("--version",),
    "runs without a store": ("runs", "--store", "none/s.db"),
    "show without a store": ("show", "x", "--store", "none/s.db"),
    "verify without a store": ("store", "verify", "--store", "none/s.db"),
    "replay of nothing": ("replay", "none", "--runner-cmd", "true"),
    "scaffold of nothing": ("scaffold", "none.json"),
}
READING_THE_STORE = {
    "runs": ("runs",),
    "show": ("show", "checkout"),
    "export": ("export", "checkout"),
    "verify": ("verify",),
}


@pytest.mark.parametrize("arguments", READING.values(), ids=READING.keys())
def test_reading_writes_nothing(replaykit: Command, case: Path, recorded: Path, arguments: tuple[str, ...]) -> None:
    before = snapshot()

    replaykit(*arguments)

    assert snapshot() == before


@pytest.mark.parametrize("arguments", READING_THE_STORE.values(), ids=READING_THE_STORE.keys())
def test_reading_the_store_writes_nothing(replaykit: Command, recorded: Path, arguments: tuple[str, ...]) -> None:
    before = snapshot()

    assert replaykit(*arguments).code == 0

    assert snapshot() == before


@pytest.mark.parametrize("arguments", READING_THE_STORE.values(), ids=READING_THE_STORE.keys())
def test_reading_does_not_change_the_store_itself(
    replaykit: Command, recorded: Path, arguments: tuple[str, ...]
) -> None:
    before = recorded.read_bytes()

    assert replaykit(*arguments).code == 0

    assert recorded.read_bytes() == before


@pytest.mark.parametrize(("observed", "is_advised"), [("timeout", False), ("error", True)])
def test_advice_about_the_clock_is_for_a_timeout_that_is_new(
    observed: str, is_advised: bool, replaykit: Command, make_case: Command, runner: Command
) -> None:
    scenario = {"input": "why?", "clock": "2024-03-12T14:32:00Z"}
    case = make_case(scenario=scenario, observed=[{"status_is": observed}])

    ran = replaykit("replay", case, "--runner-cmd", runner("late", {"status": "timeout", "errors": ["too late"]}))

    assert ("clock stood still" in ran.err) is is_advised
