"""What the runners' tests share: cases with frozen calls, and candidates written into the test's own directory."""

from __future__ import annotations

import json
import shlex
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.fixtures import write_fixtures
from replaykit.model.events import Call, ErrorInfo, ToolCall
from replaykit.model.values import Raw, canonical, raw


def frozen_call(
    seq: int, name: str, result: Any = None, *, error: ErrorInfo | None = None, **arguments: Any
) -> ToolCall:
    """A recorded tool call, as a fixture keeps it."""
    answer: dict[str, Any] = {"result_json": raw(result)} if error is None else {"error": error}
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), **answer)


@pytest.fixture
def frozen() -> Callable[..., ToolCall]:
    return frozen_call


@pytest.fixture
def make_case(own_directory: Path) -> Callable[..., Path]:
    """Write a case: it fails with `status: error`, and wants success and an answer."""

    def make(
        name: str = "billing",
        *,
        calls: Iterable[Call] = (),
        observed: Sequence[Any] = ({"status_is": "error"},),
        desired: Sequence[Any] = ({"status_is": "success"}, {"final_output_exists": True}),
        source: dict[str, str] | None = None,
        **scenario: Any,
    ) -> Path:
        directory = own_directory / "cases" / name
        directory.mkdir(parents=True)
        document = {
            "replaykit": 1,
            "id": name,
            "scenario": {"input": "Why was I charged $49.99?", **scenario},
            "observed": list(observed),
            "desired": list(desired),
            **({"source": source} if source else {}),
        }
        (directory / "case.yaml").write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
        write_fixtures(directory, calls)
        return directory

    return make


@pytest.fixture
def runner(own_directory: Path) -> Callable[..., str]:
    """Write a runner program; gives the command that runs it with this interpreter."""

    def write(code: str, name: str = "runner.py") -> str:
        head = "import json, os, sys\nOUTPUT = os.environ.get('REPLAYKIT_OUTPUT_PATH', '')\n"
        tell = "def tell(**said):\n    open(OUTPUT, 'w').write(json.dumps({'status': 'success', **said}))\n"
        (own_directory / name).write_text(head + tell + textwrap.dedent(code), encoding="utf-8")
        return shlex.join([sys.executable, str(own_directory / name)])

    return write


@pytest.fixture
def agent(own_directory: Path) -> Callable[[str], None]:
    """Write the module `agent` into the working directory."""

    def write(code: str) -> None:
        head = "import os, sys, time\nfrom pathlib import Path\nimport replaykit as rk\n"
        (own_directory / "agent.py").write_text(head + textwrap.dedent(code), encoding="utf-8")

    return write
