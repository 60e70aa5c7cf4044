"""The pytest plugin, as it is installed: each test is a project of its own, and pytest runs in it."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import msgspec
import pytest
from tests.matrix import matrix

import replaykit as rk
from replaykit.cases.golden import golden_of, read_golden, write_golden
from replaykit.cases.proof import ProofWriter
from replaykit.errors import UsageError
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

pytest_plugins = ["pytester"]

SHOP = """
import asyncio
import replaykit as rk

@rk.tool
def look(item): return {"item": item, "stock": 3}

@rk.tool
def buy(item, count): return f"{count} {item}"

def agent(item):
    with rk.record("shop") as run:
        with run.step() as step:
            found = look(item)
            step.done({"stock": found["stock"], "bought": None})
        with run.step() as step:
            bought = buy(item, COUNT)
            step.done({"stock": found["stock"], "bought": bought})
        return f"{GREETING} {bought}"

@rk.tool
async def fetch(item): return item.upper()

async def crowd(item):
    return sorted(await asyncio.gather(*(fetch(f"{item}{n}") for n in range(3))))

def breaks(item):
    look(item)
    raise LookupError("sold out")

def polite(item): return "Sorry."

def gives_up(item): raise LookupError("sold out")

COUNT, GREETING = 1, "Here is"
"""
LINE = "replaykit_agents = MODULE:FUNCTION"
OTHERS = [
    option
    for point in entry_points(group="pytest11")
    if point.name not in ("replaykit", "xdist", "xdist.looponfail")
    for option in ("-p", f"no:{point.name}")
]
"""Without what else is installed here: some of it takes seconds to load."""
INI = "[pytest]\nreplaykit_agents =\n    shop = shop:agent\n    crowd = shop:crowd\n    breaks = shop:breaks\n"
CASE = """
replaykit: 1
id: rude
scenario: {input: tea}
observed: [status_is: error]
desired: [status_is: success, final_output_exists: true]
"""


class Project:
    """A directory with an agent, its golden traces, and pytest."""

    def __init__(self, pytester: pytest.Pytester) -> None:
        self.pytester = pytester
        self.path = pytester.path
        self.write("shop.py", SHOP)

    def write(self, name: str, text: str) -> Path:
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
        return file

    def golden(self, agent: str = "agent", name: str = "shop", *, file: str = "", **given: Any) -> Path:
        """The golden trace of one run of an agent of the module as it is written first."""
        module: dict[str, Any] = {}
        exec(SHOP, module)
        try:
            with rk.record(name, input="tea", store=self.path / "store.db") as run:
                made = module[agent]("tea")
                run.output = module["asyncio"].run(made) if agent == "crowd" else made
        except LookupError:
            pass
        with rk.Store.open(self.path / "store.db", read_only=True) as store:
            golden = golden_of(store.load(run.id), **given)
        path = self.path / (file or f"traces/{name}.golden.json")
        write_golden(path, golden)
        return path

    def change(self, **constants: Any) -> None:
        """Another version of the agent."""
        lines = "".join(f"{name} = {value!r}\n" for name, value in constants.items())
        self.write("shop.py", SHOP + lines)

    def pytest(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in the project, within this process: of its own it would import all of pytest and ReplayKit."""
        return self.pytester.runpytest_inprocess(*OTHERS, "-p", "no:cacheprovider", *arguments)

    def pytest_process(self, *arguments: str) -> pytest.RunResult:
        """Run pytest in the project, in a process of its own: what is imported there is known to no other test.

        An agent that is decorated with `rk.record` is known by its name until its process ends.
        """
        return self.pytester.runpytest_subprocess(*OTHERS, "-p", "no:cacheprovider", *arguments, timeout=120)


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("CI", "PYTEST_ADDOPTS", "PYTEST_PLUGINS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return Project(pytester)


def passed(result: pytest.RunResult) -> int:
    return result.parseoutcomes().get("passed", 0)


def test_at_start_up_nothing_of_replaykit_is_imported_but_the_plugin() -> None:
    code = (
        "import sys, pytest; before = set(sys.modules); import replaykit.pytest_plugin;"
        "print(sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.strip() == "['replaykit', 'replaykit.pytest_plugin']"


def test_who_has_no_such_files_neither_sees_nor_pays_anything(project: Project) -> None:
    project.write(
        "conftest.py", "import sys\ndef pytest_unconfigure(): print([m for m in sys.modules if 'replaykit' in m])"
    )
    project.write("test_one.py", "def test_one(): pass")
    project.write("case.yaml", "some: other tool's\n")

    result = project.pytest_process()

    assert passed(result) == 1
    assert "['replaykit', 'replaykit.pytest_plugin']" in result.stdout.lines
    assert "replaykit:" not in result.stdout.str()


def test_files_without_an_agent_are_passed_by_with_one_line(project: Project) -> None:
    project.write("traces/one.golden.json", "not even JSON")
    project.write("traces/two.golden.json", "not even JSON")
    project.write("cases/rude/case.yaml", CASE)
    project.write("test_one.py", "def test_one(): pass")

    result = project.pytest_process("-n", "2")

    told = [line for line in result.stdout.lines if line.startswith("replaykit:")]
    assert (result.ret, passed(result)) == (0, 1)
    assert told == [
        f"replaykit: 2 golden traces and 1 case not run, for no agent is known: add `{LINE}` to pytest's configuration"
    ]


def test_golden_traces_and_cases_are_tests(project: Project) -> None:
    project.write("pytest.ini", INI + "    rude = shop:polite\naddopts = --strict-markers\n")
    project.golden()
    project.golden("crowd", "crowd")
    project.golden("breaks", "breaks")
    project.write("cases/rude/case.yaml", CASE)
    project.write("test_one.py", "def test_one(): pass")

    every = project.pytest("-v", "--junitxml=junit.xml")
    marked = project.pytest("-q", "-m", "replaykit", "-k", "crowd or rude", "--collect-only")

    every.assert_outcomes(passed=5)
    every.stdout.fnmatch_lines(
        [
            "cases/rude/case.yaml::rude PASSED*",
            "traces/breaks.golden.json::breaks PASSED*",
            "traces/crowd.golden.json::crowd PASSED*",
            "traces/shop.golden.json::shop PASSED*",
        ]
    )
    cases = ElementTree.parse(project.path / "junit.xml").getroot().iter("testcase")
    assert {(case.get("classname"), case.get("name")) for case in cases} >= {
        ("traces.shop.golden.json", "shop"),
        ("cases.rude.case.yaml", "rude"),
    }
    assert [line for line in marked.stdout.lines if "::" in line] == [
        "cases/rude/case.yaml::rude",
        "traces/crowd.golden.json::crowd",
    ]


def test_a_divergence_is_shown_in_a_few_lines_that_can_be_pasted(project: Project) -> None:
    project.write("pytest.ini", INI)
    project.golden()
    project.golden("crowd", "crowd")
    project.change(COUNT=2)

    result = project.pytest("-x")

    lines = result.stdout.lines
    head = next(n for n, line in enumerate(lines) if line.startswith("___") and "golden trace shop" in line)
    tail = next(n for n, line in enumerate(lines) if "short test summary info" in line)
    assert lines[head + 1 : tail] == [
        "golden trace shop differs at step_2 (event 2): arguments of buy",
        "  recorded  buy(count=1, item='tea') → '1 tea'",
        "  now       buy(count=2, item='tea') → not recorded",
        "  changed   $.count: 1 → 2",
        "  asserted  calls ✗  states ✗  outcome ✗",
        "Accept it:   pytest traces/shop.golden.json --replaykit-update --replaykit-live buy",
        lines[tail - 1],
    ]
    assert "FAILED traces/shop.golden.json::shop - Failed: golden trace shop differs at step_2" in lines[tail + 1]
    see, _, command = lines[tail - 1].partition("  ")
    verb, *arguments = shlex.split(command.strip())
    assert (see, verb) == ("See it all:", "replaykit")
    shown = subprocess.run(
        [sys.executable, "-m", "replaykit", *arguments], cwd=project.path, capture_output=True, text=True, timeout=60
    )
    assert shown.returncode == 1, shown.stderr
    assert "buy(count=2, item='tea')" in shown.stdout
    assert (project.path / ".replaykit" / ".gitignore").read_text() == "*\n"


@pytest.mark.exhaustive
def test_under_xdist_the_same_is_said_and_each_file_is_written_by_one(project: Project) -> None:
    project.write("pytest.ini", INI)
    files = [project.golden(file=f"{where}/shop.golden.json") for where in "abc"]
    same = project.golden("crowd", "crowd")
    before = same.stat()
    project.change(GREETING="Take")

    failed = project.pytest_process("-n", "2")
    updated = project.pytest_process("-n", "2", "--replaykit-update")
    again = project.pytest()

    failed.assert_outcomes(failed=3, passed=1)
    assert failed.stdout.str().count("differs at the end: outcome (output)") >= 3
    assert "Traceback" not in failed.stdout.str()
    updated.assert_outcomes(passed=4)
    told = sorted(line for line in updated.stdout.lines if line.startswith("replaykit:"))
    assert told == [f"replaykit: updated {where}/shop.golden.json" for where in "abc"]
    assert [read_golden(file).run.output for file in files] == ["Take 1 tea"] * 3
    assert (same.stat().st_mtime_ns, same.stat().st_ino) == (before.st_mtime_ns, before.st_ino)
    assert all(path.name.endswith(".golden.json") for path in (project.path / "a").iterdir()), "no draft is left"
    again.assert_outcomes(passed=4)
    assert "updated" not in again.stdout.str()


def test_an_update_without_an_answer_is_refused_unless_the_tool_may_be_called(project: Project) -> None:
    project.write("pytest.ini", INI)
    file = project.golden()
    before = file.read_bytes()
    project.change(COUNT=2)

    refused = project.pytest("--replaykit-update", "--replaykit-live", "look")

    refused.assert_outcomes(failed=1)
    assert "not updated: there is no answer to record for `buy`" in refused.stdout.str()
    assert "pytest traces/shop.golden.json --replaykit-update --replaykit-live buy" in refused.stdout.str()
    assert "During handling" not in refused.stdout.str()
    assert file.read_bytes() == before

    project.pytest("--replaykit-update", "--replaykit-live", "buy").assert_outcomes(passed=1)
    assert [call.result for call in read_golden(file).run.tool_calls] == [{"item": "tea", "stock": 3}, "2 tea"]
    project.pytest().assert_outcomes(passed=1)


def test_an_agent_that_is_never_the_same_is_told_of_when_it_is_updated(project: Project) -> None:
    project.write("pytest.ini", INI)
    project.golden()
    project.write("shop.py", SHOP.replace("GREETING}", "next(N)}") + "\nimport itertools\nN = itertools.count()\n")

    result = project.pytest("--replaykit-update")

    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        ["replaykit: updated traces/shop.golden.json, but when run again, golden trace shop differs at the end*"]
    )


@pytest.mark.parametrize(
    ("value", "refused"), [("1", True), ("true", True), ("", False), ("0", False), ("False", False)]
)
def test_no_new_truth_is_accepted_in_ci(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, value: str, refused: bool
) -> None:
    monkeypatch.setenv("CI", value)

    if not refused:
        assert pytester.parseconfigure(*OTHERS, "--replaykit-update").getoption("--replaykit-update")
        return
    with pytest.raises(pytest.UsageError, match="--replaykit-update is refused where CI is set"):
        pytester.parseconfigure(*OTHERS, "--replaykit-update")


def test_nothing_that_a_golden_trace_does_not_hold_is_done_for_real_in_a_check(project: Project) -> None:
    project.golden()
    project.change(COUNT=5)

    result = project.pytest("--replaykit-agent", "shop:agent", "--replaykit-live", "buy")

    result.assert_outcomes(failed=1)
    assert "5 tea" not in result.stdout.str()


HOSTILE = CASE.replace("scenario: {", "scenario: {match: {on_miss: live, live: [buy, look]}, ")


def hostile_case(project: Project) -> None:
    """A case that asks for live calls, as a stranger's pull request may bring it."""
    assert HOSTILE != CASE
    project.write("cases/rude/case.yaml", HOSTILE)
    project.write("shop.py", SHOP + BUYS)


BUYS = """
from pathlib import Path

@rk.tool
def buy(item, count):
    Path("bought").write_text(item)
    return "bought"

def buys(item):
    return buy("tea", 1)
"""


def test_a_case_that_asks_for_a_live_call_is_not_run_without_consent(project: Project) -> None:
    hostile_case(project)
    agent = ("--replaykit-agent", "shop:buys")

    refused = project.pytest(*agent)
    partly = project.pytest(*agent, "--replaykit-live", "buy")
    assert not (project.path / "bought").exists()
    allowed = project.pytest(*agent, "--replaykit-live", "buy", "--replaykit-live=look")

    for result in (refused, partly):
        result.assert_outcomes(failed=1)
    refused.stdout.fnmatch_lines(
        [
            "case rude: inconclusive, expected fixed",
            "  the case asks to call `buy` for real and call `look` for real, which was not allowed",
            "  To allow it: --replaykit-live buy --replaykit-live look",
        ],
        consecutive=True,
    )
    assert (project.path / "bought").read_text() == "tea"
    allowed.assert_outcomes(passed=1)
    allowed.stdout.fnmatch_lines(["replaykit: case rude passed with live calls"])


@matrix(allowed=["live buy", "allow-connect db.internal:5432", "allow-write out"], typed=[False, True])
def test_consent_comes_from_the_command_line_alone(project: Project, allowed: str, typed: bool) -> None:
    option, value = allowed.split()
    hostile_case(project)
    project.write("pytest.ini", f"[pytest]\naddopts = --replaykit-{option} {value} --replaykit-live look\n")
    words = (f"--replaykit-{option}", value) if typed else ()

    result = project.pytest("--replaykit-agent", "shop:buys", *words)

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "must be typed in full on the command line" in result.stderr.str()
    assert not (project.path / "bought").exists()


def test_under_xdist_consent_gets_to_the_workers(project: Project) -> None:
    hostile_case(project)
    words = ("-n", "1", "--replaykit-agent", "shop:buys", "--replaykit-live", "buy")

    project.pytest_process(*words).assert_outcomes(failed=1)
    project.pytest_process(*words, "--replaykit-live", "look").assert_outcomes(passed=1)

    assert (project.path / "bought").exists()


def test_an_address_that_cannot_be_allowed_is_an_error_before_any_test(project: Project) -> None:
    result = project.pytest("--replaykit-allow-connect", "db.internal")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert "'db.internal' is not an address" in result.stderr.str()


def test_a_case_that_passes_and_was_never_seen_red_is_named_at_the_end(project: Project) -> None:
    for name in ("plain", "proven"):
        project.write(f"cases/{name}/case.yaml", CASE.replace("rude", name))
    ProofWriter(rk.load_case(project.path / "cases" / "proven")).write(red="python bad.py")
    project.write("pytest.ini", "[pytest]\nreplaykit_agents = shop:polite\n")

    result = project.pytest()

    result.assert_outcomes(passed=2)
    said = "replaykit: case plain passed, but never seen red: nothing shows that this case can fail"
    assert [line for line in result.stdout.lines if "seen red" in line] == [said]


def test_a_case_passes_only_when_it_is_fixed(project: Project) -> None:
    for name in ("rude", "fixed", "lost"):
        project.write(f"cases/{name}/case.yaml", CASE.replace("rude", name))
    agents = "    rude = shop:gives_up\n    fixed = shop:polite\n    lost = shop:agent\n"
    project.write("pytest.ini", f"[pytest]\nreplaykit_agents =\n{agents}")

    result = project.pytest("--replaykit-update")

    result.assert_outcomes(failed=2, passed=1)
    result.stdout.fnmatch_lines(
        [
            "case lost: diverged, expected fixed",
            "  Run ended with error",
            "  the candidate left the tape: run 'lost' left its recording after its 0 recorded calls, tool `look`",
        ],
        consecutive=True,
    )
    result.stdout.fnmatch_lines(
        [
            "case rude: reproduced, expected fixed",
            "  Run ended with error",
            "  ✗ status_is: expected status success, got status error (LookupError: sold out)",
            "  ✗ final_output_exists: expected a final output, got no output",
            "Look at it:  replaykit replay cases/rude --agent shop:gives_up",
            "--replaykit-update is for golden traces: *",
        ],
        consecutive=True,
    )
    assert "Traceback" not in result.stdout.str()


MINE = "import shop, replaykit as rk\nagent = rk.record('shop')(shop.agent)\n"


@pytest.mark.exhaustive
def test_agents_are_named_in_the_configuration(project: Project) -> None:
    project.write("pyproject.toml", '[tool.pytest.ini_options]\nreplaykit_agents = ["shop = shop:agent", "shop:crowd"]')
    project.write("conftest.py", "import mine")
    project.write("mine.py", "import replaykit as rk\n@rk.record('shop')\ndef agent(_): pass\n")
    project.golden()
    project.golden("crowd", "crowd")

    project.pytest_process().assert_outcomes(passed=2)
    project.pytest_process("--replaykit-agent", "mine:agent").assert_outcomes(failed=2)


def test_an_agent_that_a_conftest_brings_along_is_known(project: Project) -> None:
    project.write("mine.py", MINE)
    project.write("traces/conftest.py", "import mine")
    project.golden()
    project.golden(file="traces/zzz/shop.golden.json")

    project.pytest_process("traces").assert_outcomes(passed=2)


def test_an_agent_that_a_test_brings_along_is_for_that_test(project: Project) -> None:
    """Else the order in which files are collected would decide what is collected."""
    project.write("test_a.py", MINE + "def test_it(): pass\n")
    project.golden(file="a/shop.golden.json")
    project.golden(file="z/shop.golden.json")

    result = project.pytest_process()

    result.assert_outcomes(passed=1)
    assert "replaykit: 2 golden traces not run, for no agent is known" in result.stdout.str()


def test_without_a_usable_agent_a_file_is_an_error_that_says_what_to_do(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\nreplaykit_agents =\n    shop = shop\n    crowd = nowhere:agent\n")
    project.golden()
    project.golden("crowd", "crowd")
    project.golden("breaks", "breaks")

    result = project.pytest("--continue-on-collection-errors")

    result.assert_outcomes(errors=3)
    result.stdout.fnmatch_lines(
        [
            "*ERROR collecting traces/breaks.golden.json*",
            "*breaks.golden.json: no agent is known for 'breaks'",
            "Add this line to `replaykit_agents` in pytest's configuration:  breaks = MODULE:FUNCTION",
            "*ERROR at setup of golden trace crowd*",
            "the agent 'nowhere:agent' cannot be loaded: ModuleNotFoundError: No module named 'nowhere'",
            "*ERROR at setup of golden trace shop*",
            "'shop' does not name an agent",
        ]
    )
    assert "Traceback" not in result.stdout.str()


@pytest.mark.parametrize(
    ("lines", "said"),
    [(["shop = a:b", "shop = c:d"], "two agents for 'shop'"), (["a:b", "c:d"], "two agents for all")],
)
def test_two_agents_for_one_name_are_one_too_many(pytester: pytest.Pytester, lines: list[str], said: str) -> None:
    from replaykit.pytest_items import find_agent

    pytester.makeini("[pytest]\nreplaykit_agents =\n" + "".join(f"    {line}\n" for line in lines))

    with pytest.raises(UsageError, match=said):
        find_agent(pytester.parseconfig(*OTHERS), "shop", ())


def test_no_agent_is_imported_by_a_name_out_of_a_file_nor_when_tests_are_only_listed(project: Project) -> None:
    project.write("canary.py", "open('owned', 'w').close()\ndef agent(_): pass\n")
    golden = golden_of(TraceRun(id="r", name="canary:agent", agent="canary:agent", status=RunStatus.SUCCESS))
    write_golden(project.path / "hostile.golden.json", msgspec.structs.replace(golden, agent="canary:agent\x1b[2J"))
    write_golden(project.path / "split.golden.json", msgspec.structs.replace(golden, name="a::b [c]\n\x1b[31m"))
    project.write("pytest.ini", "[pytest]\nreplaykit_agents = other = shop:agent\n")

    refused = project.pytest()
    listed = project.pytest("--collect-only", "-q", "--replaykit-agent", "canary:agent")

    refused.assert_outcomes(errors=2)
    assert "no agent is known for 'canary:agent'" in refused.stdout.str()
    assert "\x1b[2J" not in refused.stdout.str()
    assert "split.golden.json::a-b-c-31m" in listed.stdout.lines
    assert not (project.path / "owned").exists()


def test_damaged_and_newer_files_are_errors_with_their_line(project: Project) -> None:
    project.write("pytest.ini", INI)
    whole = json.loads(project.golden().read_text(encoding="utf-8"))
    project.write("half.golden.json", project.golden().read_text(encoding="utf-8")[:300])
    project.write("newer.golden.json", json.dumps({**whole, "replaykit": 2}, indent=1))
    project.write("wrong.golden.json", json.dumps({**whole, "golden": {**whole["golden"], "assert": []}}, indent=1))
    project.write("cases/bad/case.yaml", CASE + "desird: []\n")
    project.write("cases/newer/case.yaml", CASE.replace("replaykit: 1", "replaykit: 9"))
    project.write("cases/other/case.yaml", "id: of another tool\n")

    result = project.pytest("--continue-on-collection-errors")

    result.assert_outcomes(passed=1, errors=5)
    text = result.stdout.str()
    assert "half.golden.json:" in text
    assert "newer.golden.json:2: a golden trace of version 2; this ReplayKit reads up to 1" in text
    assert "golden: unknown key 'assert'; did you mean 'asserts'?" in text
    assert "bad/case.yaml:7: " in text
    assert "newer/case.yaml" in text
    assert "replaykit: cases/other/case.yaml is not a case: it has no key `replaykit`" in text
    assert "Traceback" not in text


def test_the_plugin_can_be_left_out(project: Project) -> None:
    project.golden()
    project.write("test_one.py", "def test_one(): pass")

    result = project.pytest("-p", "no:replaykit")

    result.assert_outcomes(passed=1)
    assert "replaykit:" not in result.stdout.str()


def run_bare(directory: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """pytest as its own command runs it: nothing of the working directory is importable by itself."""
    command = [sys.executable, "-P", "-m", "pytest", "-q", "-p", "no:cacheprovider", *OTHERS, *arguments]
    env = {key: value for key, value in os.environ.items() if key != "CI"}
    return subprocess.run(command, cwd=directory, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("place", ["", "lib"])
def test_an_agent_is_found_from_wherever_pytest_is_started(project: Project, place: str) -> None:
    more = f"pythonpath = {place}\n" if place else ""
    project.write("pytest.ini", INI + more)
    file = project.golden()
    if place:
        project.write(f"{place}/shop.py", (project.path / "shop.py").read_text(encoding="utf-8"))
        (project.path / "shop.py").unlink()
    elsewhere = project.path.parent / "elsewhere"
    elsewhere.mkdir(exist_ok=True)

    there = run_bare(elsewhere, str(file))

    assert there.returncode == 0, there.stdout + there.stderr


@pytest.mark.exhaustive
def test_an_agent_on_the_command_line_is_found_where_the_command_is_typed(project: Project) -> None:
    project.write("pytest.ini", "[pytest]\n")
    file = project.golden()
    other = project.write("deep/down/other.py", SHOP.replace("Here is", "Never")).parent

    done = run_bare(other, str(file), "--replaykit-agent", "other:agent")

    assert done.returncode == 1
    assert "'Here is 1 tea' → 'Never 1 tea'" in done.stdout
    assert f"pytest {file} --replaykit-update" in done.stdout, "a path that can be typed there"


def test_the_entry_point_has_the_name_that_the_documentation_uses() -> None:
    (point,) = entry_points(group="pytest11", name="replaykit")

    assert point.value == "replaykit.pytest_plugin"


def test_a_recorded_answer_that_is_wrong_for_the_tool_is_told_and_not_crashed_on(project: Project) -> None:
    """A file that was edited by hand: the agent stumbles over it, and that is what is shown."""
    project.write("pytest.ini", INI)
    project.golden("breaks", "breaks")
    golden = read_golden(project.path / "traces/breaks.golden.json")
    call = ToolCall(seq=0, name="look", arguments_json=golden.run.tool_calls[0].arguments_json, result_json=raw([1]))
    run = msgspec.structs.replace(golden.run, name="shop", events=(call,))
    write_golden(project.path / "traces/breaks.golden.json", msgspec.structs.replace(golden, agent="shop", run=run))

    result = project.pytest()

    result.assert_outcomes(failed=1)
    assert "TypeError: list indices must be integers" in result.stdout.str()
