"""`rk.integrations`: every framework by its name, imported on first use."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.integrations import EXTRAS

ROOT = Path(__file__).parents[2]


def test_an_integration_is_there_by_its_name() -> None:
    assert rk.integrations.langgraph.ReplayKitSaver.__name__ == "ReplayKitSaver"


def test_the_name_alone_imports_no_framework() -> None:
    code = "import sys, replaykit as rk; rk.integrations; print({'langgraph', 'pydantic'} & sys.modules.keys())"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)

    assert done.stdout == "set()\n", done.stderr


def test_a_name_that_is_none_says_which_there_are() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'autogen'; it has: .*pydantic_ai"):
        _ = rk.integrations.autogen  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "package"), [("pydantic_ai", "pydantic_ai"), ("openai_agents", "agents"), ("google_adk", "google.adk")]
)
def test_a_framework_that_is_not_installed_says_what_to_install(name: str, package: str) -> None:
    code = f"import sys, replaykit as rk; sys.modules[{package!r}] = None; rk.integrations.{name}"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    *_, last = done.stderr.splitlines()
    assert last.startswith(f"ModuleNotFoundError: replaykit.integrations.{name} needs ")
    assert last.endswith(f": pip install '.[{EXTRAS[name]}]'")


def test_the_functions_for_a_tool_node_need_langgraph_alone() -> None:
    code = "import sys; sys.modules['langchain'] = None; from replaykit.integrations.langchain import wrap_tool_call"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr


def test_every_integration_has_its_module_and_its_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    home = ROOT / "src" / "replaykit" / "integrations"

    assert {path.stem for path in home.iterdir()} >= EXTRAS.keys()
    assert extras.keys() >= set(EXTRAS.values())
    assert dir(rk.integrations) == sorted(EXTRAS)
