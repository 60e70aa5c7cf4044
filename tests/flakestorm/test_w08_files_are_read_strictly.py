"""W8, W9, W10, W22: a typo is an error with its line; one bad file is one error; any JSON is an input and an answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.matrix import sampled

Run = Callable[..., Any]


@pytest.mark.parametrize(
    ("wrong", "right"), [("tool_response", "tool_responses"), ("contrat", "contract"), ("inputs", "input")]
)
def test_w08_a_typo_in_a_session_names_its_line_and_the_nearest_key(
    files: Any, replaykit: Run, wrong: str, right: str
) -> None:
    text = files.incident.replace(f"{right}:", f"{wrong}:")
    session = files.write("replays/incident_001.yaml", text)
    line = next(number for number, at in enumerate(text.splitlines(), 1) if at.startswith(wrong))

    ran = replaykit("replay", session)

    assert ran.code == 2
    assert f"replays/incident_001.yaml:{line}: unknown key {wrong!r}; did you mean {right!r}?" in ran.err


def test_w08_a_typo_inside_of_an_answer_names_its_line(files: Any, replaykit: Run) -> None:
    session = files.write("replays/i.yaml", files.incident.replace("latency_ms", "latency"))

    ran = replaykit("replay", session)

    assert ran.code == 2
    assert "replays/i.yaml:9: unknown key 'latency' in tool_responses[0]; did you mean 'latency_ms'?" in ran.err


def test_w08_an_answer_that_no_tool_asked_for_is_told(files: Any, replaykit: Run) -> None:
    files.agents("def echo(question):\n    return question\n")
    files.config("agents:echo")
    session = files.session(input="unavailable", tool_responses=[{"tool": "no_such_tool", "response": 1}])

    ran = replaykit("replay", session, "--json")

    assert [(told["kind"], told["name"]) for told in ran.result["deviations"]] == [("unused", "no_such_tool")]


BAD = {
    "bad.yaml": ("id: [\n", "bad.yaml:"),
    "empty.yaml": ("", "empty.yaml: the file is empty"),
    "no-input.yaml": ("id: a\ncontract: x\n", "no-input.yaml:1: the key 'input' is missing"),
    "bad.json": ('{"id": "a", "input": ', "bad.json:1: not JSON"),
    "bomb.yaml": (
        "a: &a [x, x, x, x, x, x, x, x, x]\n"
        + "".join(f"{n}: &{n} [{', '.join([f'*{p}'] * 9)}]\n" for p, n in zip("abcdefgh", "bcdefghi", strict=True)),
        "bomb.yaml:",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_w09_a_bad_file_that_is_named_is_one_clear_error(files: Any, replaykit: Run, name: str) -> None:
    text, told = BAD[name]

    ran = replaykit("replay", files.write(f"replays/{name}", text))

    assert ran.code == 2
    assert told in ran.err
    assert "Traceback" not in ran.err + ran.out


def test_w09_a_missing_configuration_is_one_clear_error(files: Any, replaykit: Run) -> None:
    ran = replaykit("replay", files.session(), "-c", "nowhere.yaml")

    assert ran.code == 2
    assert "nowhere.yaml: no such file" in ran.err


def test_w09_bad_files_of_a_directory_are_errors_and_the_others_are_run(files: Any, replaykit: Run) -> None:
    for name, (text, _) in BAD.items():
        files.write(f"replays/{name}", text)
    files.write("replays/good.yaml", files.incident)
    files.write("replays/notes.yaml", "some: thing\n")
    files.write("replays/finance.yaml", json.dumps({"name": "x", "invariants": []}))

    ran = replaykit("replay", "replays", "--json")

    assert ran.code == 2
    verdicts = {result["case_id"]: result["verdict"] for result in ran.results}
    assert verdicts.pop("incident-2026-02-15") == "fixed"
    assert set(verdicts.values()) == {"inconclusive"}
    assert len(ran.results) == len(BAD) + 1
    for _, told in BAD.values():
        assert told in ran.err
    assert ran.err.count("replays/notes.yaml is neither a case nor a session: passed over") == 1
    assert "finance.yaml" not in ran.err


def test_w09_a_case_whose_fixtures_are_damaged_is_one_error_and_the_others_are_run(files: Any, replaykit: Run) -> None:
    files.write("suite/good.yaml", files.incident)
    case = {"replaykit": 1, "id": "bad", "desired": [{"status_is": "success"}]}
    files.write("suite/bad/case.yaml", json.dumps(case))
    files.write("suite/bad/fixtures/t.json", "{")

    ran = replaykit("replay", "suite", "--json")

    assert ran.code == 2
    assert [result["verdict"] for result in ran.results] == ["fixed", "inconclusive"]
    assert "suite/bad/fixtures/t.json" in ran.results[1]["reason"]


def test_w09_a_file_that_is_neither_is_an_error_when_it_is_named(files: Any, replaykit: Run) -> None:
    ran = replaykit("replay", files.write("replays/notes.yaml", "some: thing\n"))

    assert ran.code == 2
    assert "replays/notes.yaml:1: neither a case nor a session" in ran.err


@sampled("response", [[1, 2], 3, 2.5, True, "text", {"a": [None]}, None, {"$tuple": [1]}], count=1, start=5)
def test_w10_any_json_is_an_answer(files: Any, replaykit: Run, response: Any) -> None:
    files.agents("""
        def echo(question):
            return {"unavailable": web_search(question)}
    """)
    files.config("agents:echo")

    ran = replaykit("replay", files.session(tool_responses=[{"tool": "web_search", "response": response}]), "--json")

    output = ran.result["run"]["output"]["unavailable"]
    assert output == ({"$dict": [["$tuple", [1]]]} if response == {"$tuple": [1]} else response)
    assert ran.result["verdict"] == "fixed"


@sampled(
    "given", [{"messages": [{"role": "user", "content": "hi"}]}, [{"role": "user", "content": "hi"}], 7, None], count=1
)
def test_w10_any_json_is_an_input(files: Any, replaykit: Run, given: Any) -> None:
    files.agents("""
        def echo(question):
            return ["unavailable", question]
    """)
    files.config("agents:echo")
    value = {"id": "x", "input": given, "contract": "Finance Agent Contract"}
    session = files.write("replays/x.json", json.dumps(value))

    assert replaykit("replay", session, "--json").result["run"]["output"] == ["unavailable", given]


def test_w22_a_session_that_names_another_file_is_that_session(files: Any, replaykit: Run) -> None:
    files.write("replays/shared/incident.yaml", files.incident)
    session = files.write("replays/link.yaml", "file: shared/incident.yaml\n")

    ran = replaykit("replay", session, "--json")

    assert (ran.code, ran.result["case_id"]) == (0, "incident-2026-02-15")


def test_w22_files_that_name_one_another_are_an_error_with_its_line(files: Any, replaykit: Run) -> None:
    files.write("replays/a.yaml", "file: b.yaml\n")
    files.write("replays/b.yaml", "# round and round\nfile: a.yaml\n")

    ran = replaykit("replay", "replays/a.yaml")

    assert ran.code == 2
    assert "replays/b.yaml:2: file: 'a.yaml' refers back to the file that names it" in ran.err


def test_w22_a_file_that_is_not_there_is_an_error_with_its_line(files: Any, replaykit: Run) -> None:
    ran = replaykit("replay", files.write("replays/a.yaml", "file: gone.yaml\n"))

    assert ran.code == 2
    assert "replays/a.yaml:1: file: there is no file 'replays/gone.yaml'" in ran.err
