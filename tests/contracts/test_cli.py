"""`replaykit contract`: which contract, which agent, which inputs, and how the command ends."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.commands import Ran, caller

AGENT = """\
import replaykit as rk

@rk.tool
def price(symbol):
    return 190

def answer(text):
    try:
        return f"{text}: {price('AAPL')}"
    except Exception as error:
        return f"{text}: unavailable"
"""
CONTRACT = "name: {name}\ninvariants:\n  - {{id: answers, type: contains, value: '{value}'}}\n"


Cli = Callable[..., Ran]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return caller(capsys, Ran, "contract")


@pytest.fixture(autouse=True)
def project(own_directory: Path) -> Path:
    Path("pricer.py").write_text(AGENT)
    Path("contracts").mkdir()
    Path("contracts/price.yaml").write_text(CONTRACT.format(name="Price", value="190"))
    return own_directory


def write_config(text: str = "", where: str = "replaykit.yaml") -> None:
    agent = 'replaykit: 1\nagent: {type: python, endpoint: "pricer:answer"}\ninputs: [AAPL]\n'
    Path(where).write_text(agent + text)


def inline(name: str, value: str) -> str:
    return f"{{name: {name}, invariants: [{{id: answers, type: contains, value: '{value}'}}]}}"


def test_a_contracts_file_and_an_agent_need_no_configuration(cli: Cli) -> None:
    ran = cli("run", "contracts/price.yaml", "--agent", "pricer:answer", "--input", "AAPL")

    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines() == ["✓ no chaos: 1 of 1 hold", "", "Price: kept, score 100"]


def test_the_only_contract_of_a_configuration_need_not_be_named(cli: Cli) -> None:
    write_config(f"contract: {inline('Only', '190')}\n")

    assert cli("run").code == 0
    assert cli("run", "Only").code == 0


def test_of_several_contracts_one_is_named(cli: Cli) -> None:
    write_config(f"contracts: [{inline('One', '190')}, {inline('Two', 'never')}]\n")

    assert cli("run", "One").code == 0
    assert cli("run", "Two").code == 1
    ran = cli("run")
    assert (ran.code, ran.out) == (2, "")
    assert "Name one: One, Two" in ran.err


def test_a_contract_is_looked_for_beside_the_configuration(cli: Cli) -> None:
    Path("conf").mkdir()
    Path("contracts").rename("conf/contracts")
    Path("pricer.py").rename("conf/pricer.py")
    write_config(where="conf/replaykit.yaml")

    assert cli("run", "contracts/price.yaml", "-c", "conf/replaykit.yaml").code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "which contract? no replaykit.yaml holds none"),
        (["run", "Nope"], "no contract 'Nope'"),
        (["run", "nope.yaml"], "there is no file"),
        (["run", "contracts/price.yaml"], "no candidate to run"),
        (["run", "contracts/price.yaml", "--case", "nope", "--agent", "pricer:answer"], "'nope' does not exist"),
        (["run", "contracts/price.yaml", "--min-score", "101"], "101"),
        (["run", "contracts/price.yaml", "--min-score", "nan"], "nan is not a number"),
        (["lint"], "which file?"),
        (["score", "-c", "nope.yaml"], "nope.yaml: no such file"),
    ],
)
def test_a_mistake_is_told_and_nothing_runs(arguments: list[str], message: str, cli: Cli) -> None:
    if "contracts/price.yaml" in arguments and "--case" not in arguments:
        arguments = [*arguments, "--input", "x"]
    ran = cli(*arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_inputs_of_the_command_line_go_before_those_of_the_configuration(cli: Cli) -> None:
    write_config(f"contract: {inline('Only', 'aapl')}\n")

    assert cli("run").code == 0
    ran = cli("run", "--input", "MSFT", "--input", '{"symbol": 1}', "--json")
    assert ran.code == 1
    assert [check["probe"] for check in json.loads(ran.out)["checks"]] == ["MSFT", '{"symbol":1}']


def test_an_agent_of_the_command_line_goes_before_that_of_the_configuration(cli: Cli) -> None:
    write_config(f"contract: {inline('Only', '190')}\n")
    Path("silent.py").write_text("def answer(text):\n    return 'nothing'\n")

    assert cli("run", "--agent", "silent:answer").code == 1


def test_the_world_of_a_case_has_its_tools_and_its_input(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    write_config(f"contract: {inline('Finance', 'ACME: unavailable')}\n")
    session: dict[str, Any] = {
        "id": "incident",
        "input": "ACME",
        "contract": "Finance",
        "tool_responses": [{"tool": "price", "status": 504}],
    }
    Path("incident.json").write_text(json.dumps(session))

    assert cli("run", "--case", "incident.json").code == 0
    session["tool_responses"] = [{"tool": "price", "response": 7}]
    Path("incident.json").write_text(json.dumps(session))
    assert cli("run", "--case", "incident.json").code == 1


def test_a_session_that_is_wrong_is_no_world(cli: Cli) -> None:
    write_config(f"contract: {inline('Finance', 'x')}\n")
    Path("incident.json").write_text(json.dumps({"id": "incident", "input": "x", "contract": "Other"}))

    ran = cli("run", "--case", "incident.json")

    assert ran.code == 2
    assert "Other" in ran.err


def test_an_agent_that_cannot_be_loaded_is_no_failure_of_the_agent(cli: Cli) -> None:
    ran = cli("run", "contracts/price.yaml", "--agent", "nowhere:answer", "--input", "x")

    assert ran.code == 3
    assert "the agent could not be run: the agent 'nowhere:answer' cannot be loaded" in ran.err
    assert "Price: not run" in ran.out


def test_a_lower_score_may_be_asked_for_but_nothing_critical_may_fail(cli: Cli) -> None:
    text = CONTRACT.format(name="Price", value="190") + "  - {id: other, type: contains, value: never}\n"
    Path("contracts/price.yaml").write_text(text)
    asked = ["run", "contracts/price.yaml", "--agent", "pricer:answer", "--input", "x"]

    assert cli(*asked).code == 1
    ran = cli(*asked, "--min-score", "50")
    assert ran.code == 0
    assert ran.out.endswith("Price: kept, score 50 of at least 50, 1 invariant failed\n")
    Path("contracts/price.yaml").write_text(text.replace("value: never", "value: never, severity: critical"))
    assert cli(*asked, "--min-score", "0").code == 1


def test_what_nobody_has_judged_is_told_and_does_not_pass_whatever_score_is_asked_for(cli: Cli) -> None:
    polite = "  - {id: polite, type: judge.rubric, value: The answer is polite, severity: SEVERITY}\n"
    text = CONTRACT.format(name="Price", value="190") + polite
    asked = ["contracts/price.yaml", "--agent", "pricer:answer", "--input", "x", "--min-score", "0"]
    for severity in ("low", "critical"):
        Path("contracts/price.yaml").write_text(text.replace("SEVERITY", severity))
        assert cli("run", *asked).code == 3

    ran, scored, document = cli("run", *asked), cli("score", *asked), json.loads(cli("run", *asked, "--json").out)

    assert "? no chaos: 1 of 2 hold, 1 unjudged\n  ? polite (critical, judge.rubric): inconclusive\n" in ran.out
    assert "why       needs_human: 'The answer is polite', it was never judged\n" in ran.out
    assert "hint      Ask the judge: replaykit contract run Price --ask-judge\n" in ran.out
    assert "      evidence  .replaykit" in ran.out
    assert ran.out.endswith("Price: inconclusive, score 25 of at least 0, 1 invariant unjudged\n")
    assert (scored.code, scored.out) == (3, "25\n")
    assert scored.err.startswith("unjudged: polite: needs_human: ")
    (check,) = (check for check in document["checks"] if "holds" not in check)
    assert (check["invariant"], document["passed"]) == ("polite", False)
    assert check["unjudged"].startswith("needs_human: ")


def test_what_failed_is_told_before_what_nobody_has_judged(cli: Cli) -> None:
    polite = "  - {id: polite, type: judge.rubric, value: The answer is polite}\n"
    Path("contracts/price.yaml").write_text(CONTRACT.format(name="Price", value="never") + polite)

    ran = cli("run", "contracts/price.yaml", "--agent", "pricer:answer", "--input", "x")

    assert ran.code == 1
    assert "✗ no chaos: 0 of 2 hold, 1 unjudged\n  ✗ answers" in ran.out
    assert ran.out.endswith("Price: broken, score 0, 1 invariant failed, 1 invariant unjudged\n")


def test_the_seed_of_the_configuration_decides_which_faults_strike(cli: Cli) -> None:
    matrix = "chaos_matrix: [{name: shaky, tool_faults: [{tool: price, mode: error, probability: 0.5}]}]\n"
    config = 'version: "2.0"\nagent: {type: python, endpoint: "pricer:answer"}\n' + matrix
    Path("flakestorm.yaml").write_text(config + "advanced: {seed: 7}\n" + f"contract: {inline('Only', '190')}\n")
    inputs = [part for number in range(8) for part in ("--input", f"n{number}")]

    first, second = (cli("run", "--json", *inputs, "-j", jobs) for jobs in (1, 3))

    assert _without_time(first.out) == _without_time(second.out)


def _without_time(text: str) -> Any:
    """The result without what is another in each run of the command."""
    document = json.loads(text)
    del document["duration_s"]
    for check in document["checks"]:
        check.pop("evidence", None)
    return document


def test_lint_shows_every_problem_of_every_file(cli: Cli) -> None:
    write_config("contracts:\n  One: {invariants: [{id: a, type: compltes}]}\n  Two: {invariants: []}\n")
    Path("contracts/price.yaml").write_text("name: x\n")

    ran = cli("lint", "replaykit.yaml", "contracts/price.yaml", "--json")

    assert ran.code == 1
    found = [(problem["file"], problem["line"], problem["code"]) for problem in json.loads(ran.out)["problems"]]
    assert found == [
        ("replaykit.yaml", 5, "unknown-type"),
        ("replaykit.yaml", 6, "no-invariants"),
        ("contracts/price.yaml", 1, "missing-key"),
    ]
    assert "3 errors" in cli("lint", "replaykit.yaml", "contracts/price.yaml").out


def test_lint_finds_nothing_wrong_with_good_files(cli: Cli) -> None:
    write_config(f"contract: {inline('Only', '190')}\n")

    assert cli("lint") == (0, "1 file: ok\n", "")
    assert cli("lint", "contracts/price.yaml", "replaykit.yaml").code == 0


def test_lint_of_a_configuration_without_a_contract_says_so_and_does_not_pass(cli: Cli) -> None:
    Path("replaykit.yaml").write_text(
        "replaykit: 1\nagent: {type: python, endpoint: 'pricer:answer'}\ncases: [cases]\n"
    )

    ran = cli("lint")

    assert ran.code == 1
    assert "this configuration has no contract [no-contract]\n    Add one under `contracts:`." in ran.out
    assert "1 file: 1 error" in ran.out


def test_no_name_in_a_contract_is_ever_imported(cli: Cli) -> None:
    Path("trap.py").write_text("open('sprung', 'w').close()\n")
    Path("contracts/price.yaml").write_text(CONTRACT.format(name="python:trap:x", value="trap:x"))

    cli("lint", "contracts/price.yaml")
    cli("run", "contracts/price.yaml", "--agent", "pricer:answer", "--input", "trap:x")

    assert not Path("sprung").exists()


@pytest.fixture
def http_agent() -> Iterator[str]:
    """The URL of an agent whose tools nobody can reach from here."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            body = b'{"output": "AAPL: 190"}'
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Tests are quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_faults_that_cannot_reach_an_agents_tools_do_not_pass_as_robustness(cli: Cli, http_agent: str) -> None:
    matrix = "chaos_matrix: [{name: calm}, {name: outage, tool_faults: [{tool: price, mode: error}]}]\n"
    agent = f"replaykit: 1\nagent: {{type: http, endpoint: '{http_agent}'}}\ninputs: [AAPL]\n"
    Path("replaykit.yaml").write_text(agent + matrix + f"contract: {inline('Only', '190')}\n")

    ran = cli("run")

    assert ran.code == 5
    assert "untested: outage: no fault was triggered" in ran.out
    assert "Only: untested" in ran.out


def test_a_program_may_be_the_agent(cli: Cli) -> None:
    Path("program.py").write_text("print('AAPL: 190')\n")

    ran = cli("run", "contracts/price.yaml", "--input", "AAPL", "--", sys.executable, "program.py")

    assert ran.code == 0, ran.err


def test_a_part_that_is_not_there_is_answered_with_the_nearest(cli: Cli) -> None:
    ran = cli("scor")

    assert ran.code == 2
    assert "no such command 'scor'; did you mean 'score'?" in ran.err
