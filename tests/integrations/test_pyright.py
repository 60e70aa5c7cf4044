"""The public API in pyright's strict mode: the file that mypy checks in the lint step, as a user would write it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("basedpyright")

USER_CODE = Path(__file__).parents[1] / "typing" / "api.py"


def checked(tmp_path: Path, code: str) -> subprocess.CompletedProcess[str]:
    """Check a user's file with the package that is installed here."""
    (tmp_path / "agent.py").write_text(code, encoding="utf-8")
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "strict"}))
    command = [sys.executable, "-m", "basedpyright", "--project", str(tmp_path), "--pythonpath", sys.executable]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_code_of_a_user_has_no_type_errors(tmp_path: Path) -> None:
    ran = checked(tmp_path, USER_CODE.read_text(encoding="utf-8"))

    assert ran.returncode == 0, ran.stdout


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (
            "import replaykit as rk\n@rk.tool\ndef twice(n: int) -> int:\n    return 2 * n\ntwice('x')\n",
            "reportArgumentType",
        ),
        ("import replaykit as rk\nprint(rk.load_case('cases/x').nothing)\n", "reportAttributeAccessIssue"),
    ],
    ids=["argument", "attribute"],
)
def test_a_mistake_of_a_user_is_found(tmp_path: Path, code: str, error: str) -> None:
    ran = checked(tmp_path, code)

    assert ran.returncode == 1
    assert error in ran.stdout
