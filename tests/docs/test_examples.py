"""The examples, run as their first lines say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from tests.matrix import sampled

from replaykit.errors import UsageError
from replaykit.project.examples import all_examples, copy_example

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def examples(own_directory: Path) -> Path:
    return Path(shutil.copytree(ROOT / "examples", own_directory / "examples"))


def python(*arguments: str) -> str:
    env = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, encoding="utf-8", env=env, timeout=60
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_is_made_replayed_and_travelled_in() -> None:
    made = python("examples/run_agent.py", "--query", "What's the weather in San Francisco?")
    (run_id,) = re.findall(r"^run_id: (.+)$", made, re.MULTILINE)
    assert "answer: Fog, 14 °C in San Francisco." in made

    replayed = python("examples/replay_run.py", "--run-id", run_id)
    assert "same answer: yes, deviations: 0" in replayed

    travelled = python(
        "examples/time_travel.py", "--run-id", run_id, "--step-id", "step_3", "--modify", '{"max_retries": 3}'
    )
    assert "'max_retries': 5" in travelled, "the state of the original"
    assert "out of date" in travelled, "the fork gives up earlier"


def test_the_incident_is_met_with_seven_moves() -> None:
    told = python("examples/incident_response.py")

    assert re.findall(r"^(\d)\.", told, re.MULTILINE) == list("1234567")
    assert "reproduced: Run ended with error; Tool 'search_docs' called 5 times; No final output" in told
    assert "agent: reproduced" in told
    assert "fixed_agent: fixed" in told


@pytest.mark.exhaustive
def test_a_langgraph_thread_waits_goes_on_and_takes_another_way() -> None:
    told = python("examples/langgraph_agent.py")

    assert "waits for: Refund 49.99 €?" in told
    assert "answered: 0.0 € are on their way." in told
    assert "the other way: 20.0 € are on their way." in told
    assert re.findall(r"^step: (.+)$", told, re.MULTILINE)[-3:] == ["step_2.2", "step_3.2", "step_4"]


@pytest.mark.exhaustive
def test_a_chat_that_somebody_kept_becomes_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("examples/imported")
    blocks = re.findall(r"^```bash\n(.*?)^```", Path("README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [line.split() for block in blocks for line in block.splitlines()]
    ended = [
        subprocess.run([sys.executable, "-m", *command], capture_output=True, text=True, timeout=60)
        for command in commands
    ]

    assert [done.returncode for done in ended] == [0, 0, 0, 1, 0], [done.stderr for done in ended]
    assert "Result: FAILURE REPRODUCED" in ended[3].stdout
    assert "Result: FIXED" in ended[4].stdout
    assert "a model × 3" in ended[4].stdout, "recorded and not called"


def test_an_example_is_copied_whole_and_replaces_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    place = tmp_path_factory.mktemp("empty")

    copied = python("-m", "replaykit", "examples", "copy", "golden", str(place))

    assert copied.endswith("\nNext: cd examples/golden && pytest\n")
    assert {path.name for path in (place / "examples" / "golden").iterdir()} >= {"refunds.py", "pytest.ini"}
    (place / "examples" / "golden" / "pytest.ini").unlink()
    (place / "examples" / "golden" / "refunds.py").write_text("mine")
    with pytest.raises(UsageError, match=r"refunds\.py already exists, with other content"):
        copy_example("golden", place)
    assert not (place / "examples" / "golden" / "pytest.ini").exists()
    with pytest.raises(UsageError, match="no example 'goldne'; did you mean 'golden'"):
        copy_example("goldne", place)


def test_examples_that_share_files_are_copied_into_one_directory(tmp_path: Path) -> None:
    for name in all_examples():
        copy_example(name, tmp_path)

    again = copy_example("cases", tmp_path)

    assert again.created == []
    assert tmp_path / "examples" / "agents" in again.existing


@pytest.mark.parametrize("name", all_examples())
def test_an_example_has_all_the_files_that_its_first_command_names(name: str, tmp_path: Path) -> None:
    place = tmp_path / "empty"

    example = copy_example(name, place).example

    named = re.findall(r"examples/[\w/.-]+", example.first_command)
    assert named
    assert [path for path in named if not (place / path).exists()] == []


NEEDS = {"frameworks": "openai-agents", "langgraph": "langgraph"}
"""Examples that need a third-party package, and its name. (Tests leave modules called `agents` behind.)"""
SERVERS = ("http_agent",)
"""Examples whose first command starts a server: `tests/middleware/test_example.py` runs them."""


def is_installed(package: str) -> bool:
    """Return whether this environment has a package."""
    try:
        distribution(package)
    except PackageNotFoundError:
        return False
    return True


def shell(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    """Run a command line as somebody would type it, with the `replaykit` and the `python` of these tests."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    return subprocess.run(["bash", "-c", command], cwd=place, env=env, capture_output=True, text=True, timeout=120)


@sampled("name", [name for name in all_examples() if name not in SERVERS], count=2)
def test_the_first_command_of_a_copied_example_works(name: str, tmp_path: Path) -> None:
    if name in NEEDS and not is_installed(NEEDS[name]):
        pytest.skip(f"needs {NEEDS[name]}")
    example = copy_example(name, tmp_path / "empty").example

    done = shell(example.first_command, tmp_path / "empty")

    assert done.returncode == 0, done.stdout + done.stderr


READMES = {"prompt_fix": [0, 1, 1, 0, 0], "plugins": [0, 0, 0, 1, 0, 0, 0]}
"""How the commands of an example's README end; `imported` and `http_agent` have tests of their own."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", READMES)
def test_the_commands_of_the_readme_of_a_copied_example_work(name: str, tmp_path: Path) -> None:
    copy_example(name, tmp_path / "empty")
    place = tmp_path / "empty" / "examples" / name
    text = (place / "README.md").read_text(encoding="utf-8")
    commands = re.findall(r"^    (replaykit .*)$", text, re.MULTILINE)

    ended = [shell(command, place) for command in commands]

    assert [done.returncode for done in ended] == READMES[name], [done.stdout + done.stderr for done in ended]


def test_every_readme_of_an_example_is_run() -> None:
    readmes = {file.parent.name for file in (ROOT / "examples").glob("*/README.md")}

    assert readmes == {*READMES, *SERVERS, "imported"}
