"""Evidence: the files that a run of the agent leaves, in a directory of its own.

.replaykit/runs/20240312-143200-search-loop/
  result.json  summary.md  runner-output.json  stdout.log  stderr.log
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.output_log import LOGS
from replaykit.candidates.shared_arguments import clean_with_runs
from replaykit.config import make_home
from replaykit.errors import StoreError
from replaykit.model.events import Call, ErrorEvent
from replaykit.model.isolation import Isolation
from replaykit.model.result import Finding, ReplayResult, SemanticCheck, Verdict
from replaykit.model.run import TraceRun
from replaykit.model.text_lines import cut
from replaykit.model.values import Raw, encode_pretty
from replaykit.private_files import close_all
from replaykit.redaction.files import clean_bytes, file_redactor, replace_file
from replaykit.terminal import visible, visible_lines

if TYPE_CHECKING:
    from replaykit.redaction.redactor import Redactor

_TRIAL_WORDS = {Verdict.FIXED: "passed", Verdict.BROKEN: "not passed"}
_SHOWN_CALLS = 100
_SHOWN_CHARS = 500


class EvidenceFiles(Struct, frozen=True, kw_only=True):
    """The directory in which replays and trials leave their files."""

    root: Path
    of_passed: bool = False
    """True if passing runs leave files, too."""


def new_workspace(root: Path, case_id: str) -> Path:
    """Create and return a directory for one replay, named after time and case."""
    stamp = time.strftime("%Y%m%d-%H%M%S", time.gmtime())
    safe = "".join(c if c.isalnum() or c in "-_." else "-" for c in case_id)
    name = f"{stamp}-{safe.encode()[:80].decode(errors='ignore')}"  # file systems limit names in bytes
    try:
        make_home(root)
        for number in itertools.count(2):
            directory = root / name
            try:
                # mkdir is atomic, so two replays of the same second never share a directory.
                directory.mkdir(mode=0o700)
            except FileExistsError:
                name = f"{name.removesuffix(f'~{number - 1}')}~{number}"
            else:
                return directory
    except OSError as error:
        raise StoreError(f"{root} cannot be made: {error.strerror}") from None
    raise AssertionError("unreachable: the loop ends by returning")


def write_evidence(
    workspace: Path, result: ReplayResult, scenario_input: Raw, remarks: Sequence[str] = ()
) -> ReplayResult:
    """Write result and summary beside the logs, and return the result as written: redacted, like all files there.

    Missing logs are created empty.
    """
    redactor = file_redactor()
    shown = redacted_result(result, redactor)
    text = summary(shown, Raw(clean_bytes(bytes(scenario_input), redactor)), remarks)
    try:
        for name in LOGS:
            (workspace / name).touch()
        _write(workspace / "result.json", encode_pretty(shown))
        _write(workspace / "summary.md", clean_bytes(text.encode(), redactor))
        close_all(workspace)
    except OSError as error:
        raise StoreError(f"{workspace}: the evidence cannot be written: {error.strerror}") from None
    return shown


def _write(file: Path, data: bytes) -> None:
    """Write a new file. Anything that the candidate put in its place is replaced, without following links."""
    try:
        with file.open("xb") as new:
            new.write(data)
    except FileExistsError:
        replace_file(file, data)


def redacted_result(result: ReplayResult, redactor: Redactor | None) -> ReplayResult:
    """Return the redacted result, safe to write and to print."""
    rest = replace(result, run=None, more=())
    if result.run is None:
        shown, more = clean_with_runs(rest, result.more, redactor)
        return replace(shown, more=tuple(more))
    shown, (run, *more) = clean_with_runs(rest, (result.run, *result.more), redactor)
    return replace(shown, run=run, more=tuple(more))


def summary(result: ReplayResult, scenario_input: Raw, remarks: Sequence[str] = ()) -> str:
    """Describe a run in Markdown: what the agent was asked, what it did, and in `remarks` under which conditions."""
    lines = [f"# {visible(result.case_id)}: {_word(result)}", "", f"- candidate: `{result.candidate}`"]
    if not result.trial:
        reproduced = {True: "yes", False: "no", None: "cannot tell"}[result.reproduced]
        used = result.evidence
        lines.append(f"- failure reproduced: {reproduced}")
        lines.append(f"- recorded answers used: {used.used} of {used.recorded} ({used.how.value})")
    if result.take:
        lines.append(f"- take: {result.take}")
    if not result.offline:
        lines.append("- done with live calls")
    if not result.trial:
        lines.append(f"- isolation: {result.isolation.level.value}")
    lines += [f"- time: {result.duration_s:.2f} s", *(f"- {_line(remark)}" for remark in remarks)]
    if result.expected_failure:
        lines.append(f"- the incident: {_line(result.expected_failure)}")
    if result.reason:
        lines += ["", result.reason]
    lines += _section("Observed failure signatures", result.observed)
    lines += _section("Desired assertions", result.desired)
    if result.semantic:
        lines += ["", "## Semantic checks", "", *map(_semantic, result.semantic)]
    if result.deviations:
        lines += ["", "## Off the tape", ""]
        lines += [f"- {deviation.kind}: {deviation.text}" for deviation in result.deviations]
    lines += _isolation(result.isolation)
    # Each line starts with a fixed word, so that no value can close the code block.
    lines += ["", "## What happened", "", "```text", f"asked     {_shown(scenario_input)}", *_story(result.run), "```"]
    return visible_lines("\n".join(lines) + "\n")


def _word(result: ReplayResult) -> str:
    """Return the verdict, or for a trial, which has no failure to fix, whether it passed."""
    if result.trial and result.verdict in _TRIAL_WORDS:
        return _TRIAL_WORDS[result.verdict]
    return result.verdict.value


def _semantic(check: SemanticCheck) -> str:
    why = ": ".join(filter(None, (check.by, " ".join(check.reason.split()))))
    if why:
        why = f" ({why})"
    return f"- {check.status}: {check.text}{why}"


def _isolation(isolation: Isolation) -> list[str]:
    """Return what the isolation stopped, and which written files were discarded."""
    lines = [f"- {note}" for note in isolation.notes]
    for access in isolation.stopped:
        lines.append(
            f"- stopped: {access.channel} {_line(access.target)} by `{_line(access.program)}` ({access.count} ×)"
        )
    if isolation.more_stopped:
        lines.append(f"- stopped: {isolation.more_stopped} more")
    lines += [f"- {file.change}, and discarded: {_line(file.path)}" for file in isolation.written]
    if isolation.written_count > len(isolation.written):
        lines.append(f"- {isolation.written_count - len(isolation.written)} more files")
    if lines:
        return ["", "## Isolation", "", *lines]
    return []


def _section(title: str, findings: tuple[Finding, ...]) -> list[str]:
    if not findings:
        return []
    lines = ["", f"## {title}", ""]
    for finding in findings:
        box = "x" if finding.holds else " "
        lines.append(f"- [{box}] `{finding.name}`: {finding.text}")
    return lines


def _story(run: TraceRun | None) -> Iterator[str]:
    """Yield each call with its answer and faults, and how the run ended."""
    if run is None:
        yield "ended     without a run"
        return
    listed_events = [event for event in run.events if isinstance(event, Call | ErrorEvent)]
    for event in listed_events[:_SHOWN_CALLS]:
        if isinstance(event, ErrorEvent):
            yield f"error     {_line(str(event.error))}"
            continue
        yield f"call {event.seq:<4} {_line(event.name)}({_shown(event.arguments_json)})"
        yield f"          → {_answer(event)}"
        if event.faults:
            yield f"          fault: {', '.join(event.faults)}"
    if len(listed_events) > _SHOWN_CALLS:
        yield f"…         {len(listed_events) - _SHOWN_CALLS} more, in result.json"
    if run.output_json:
        yield f"answered  {_shown(run.output_json)}"
    error = f": {_line(str(run.error))}" if run.error else ""
    yield f"ended     {run.status.value}{error}"


def _answer(call: Call) -> str:
    if call.error is not None:
        return _line(str(call.error))
    if call.items_json is not None:
        return _shown(Raw(b"[" + b",".join(map(bytes, call.items_json)) + b"]"))
    if call.result_json:
        return _shown(call.result_json)
    return "(no answer)"


def _shown(value: Raw) -> str:
    return _line(bytes(value)[: 4 * _SHOWN_CHARS].decode(errors="ignore"))


def _line(text: str) -> str:
    """Return a text on one line, shortened, and with control characters escaped."""
    return cut(visible(" ".join(text[: 4 * _SHOWN_CHARS].split())), _SHOWN_CHARS)
