"""Evidence: what every replay leaves behind, in a directory of its own.

.replaykit/runs/20240312-143200-search-loop/
  result.json  summary.md  runner-output.json  stdout.log  stderr.log
"""

from __future__ import annotations

import itertools
import time
from pathlib import Path

import msgspec

from replaykit.config import make_home
from replaykit.errors import StoreError
from replaykit.model.result import Finding, ReplayResult, SemanticCheck


def new_workspace(root: Path, case_id: str) -> Path:
    """A new directory for one replay, named by time and case."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in case_id)
    name = f"{stamp}-{safe.encode()[:80].decode(errors='ignore')}"  # file systems count bytes
    try:
        make_home(root)
        for number in itertools.count(2):
            directory = root / name
            try:
                directory.mkdir()
            except FileExistsError:
                name = f"{name.removesuffix(f'~{number - 1}')}~{number}"
            else:
                return directory
    except OSError as error:
        raise StoreError(f"{root} cannot be made: {error.strerror}") from None
    raise AssertionError("unreachable: the loop ends by returning")


def write_evidence(workspace: Path, result: ReplayResult) -> None:
    """Write the result and its summary beside the logs; logs that nobody wrote are there and empty."""
    for name in ("stdout.log", "stderr.log"):
        (workspace / name).touch()
    (workspace / "result.json").write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=2) + b"\n")
    (workspace / "summary.md").write_text(summary(result), encoding="utf-8")


def summary(result: ReplayResult) -> str:
    """A replay in Markdown, for people."""
    reproduced = {True: "yes", False: "no", None: "cannot tell"}[result.reproduced]
    lines = [
        f"# {result.case_id}: {result.verdict.value}",
        "",
        f"- candidate: `{result.candidate}`",
        f"- failure reproduced: {reproduced}",
        f"- time: {result.duration_s:.2f} s",
    ]
    if result.reason:
        lines += ["", result.reason]
    lines += _section("Observed failure signatures", result.observed)
    lines += _section("Desired assertions", result.desired)
    if result.semantic:
        lines += ["", "## Semantic checks", "", *map(_semantic, result.semantic)]
    if result.deviations:
        lines += [
            "",
            "## Off the tape",
            "",
            *(f"- {deviation.kind}: {deviation.text}" for deviation in result.deviations),
        ]
    return "\n".join(lines) + "\n"


def _semantic(check: SemanticCheck) -> str:
    why = ": ".join(part for part in (check.by, " ".join(check.reason.split())) if part)
    return f"- {check.status}: {check.text}" + (f" ({why})" if why else "")


def _section(title: str, findings: tuple[Finding, ...]) -> list[str]:
    if not findings:
        return []
    return ["", f"## {title}", "", *(f"- [{'x' if f.holds else ' '}] `{f.name}`: {f.text}" for f in findings)]
