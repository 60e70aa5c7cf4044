"""Export the failures of a report as sessions with the real input, the real tool answers, and the broken contract."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import CASE_FILE
from replaykit.cases.run_session import holds, session_answer, session_text, write_session
from replaykit.cases.tagged_values import Say, build_tagged
from replaykit.documents.document import parse_document, read_bytes
from replaykit.documents.slug import slug
from replaykit.errors import FormatTooNew, InvalidFile, NothingSelected, UsageError
from replaykit.model.values import ABSENT, NULL, JsonObject, canonical
from replaykit.trials.ci_result import CI_FORMAT, CiItem, CiOutcome, CiPartName, CiResult

_NAME_CHARS = 150


class Exported(Struct, frozen=True, kw_only=True):
    """The files written, the files that were already up to date, and notices for the user."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


class _FlakestormMutation(Struct, frozen=True):
    """A mutation in a Flakestorm report."""

    mutated: str
    type: str = "mutation"


class _FlakestormCheck(Struct, frozen=True):
    passed: bool
    check_type: str = ""
    details: str = ""


class _FlakestormOutcome(Struct, frozen=True):
    """The outcome of one mutation in a Flakestorm report."""

    passed: bool
    mutation: _FlakestormMutation | str
    error: str | None = None
    checks: tuple[_FlakestormCheck, ...] = ()


class _FlakestormReport(Struct, frozen=True):
    mutations: tuple[_FlakestormOutcome, ...]


def export_failures(report: Path, directory: Path, *, contract: str | None, force: bool) -> Exported:
    """Write a session file for each failure of a report. `contract` applies if the report names none."""
    notices: list[str] = []
    sessions = list(_sessions(report, contract, notices))
    files = dict(_files(sessions, directory, notices))
    if not files:
        raise NothingSelected(f"{report} holds no failure to export", hint="\n".join(notices) or None)
    unchanged = tuple(file for file, text in files.items() if holds(file, text))
    conflicting = [file for file in files if file not in unchanged and file.exists()]
    if conflicting and not force:
        raise UsageError(f"{conflicting[0]} already exists, and its content differs", hint="Replace it: --force")
    if any("contract" not in session for session in sessions):
        notices.append("the report names no contract: the sessions keep the one called `default`; or --contract NAME")
    written = tuple(write_session(file, text) for file, text in files.items() if file not in unchanged)
    return Exported(written=written, unchanged=unchanged, notices=tuple(notices))


def _files(sessions: Iterable[JsonObject], directory: Path, notices: list[str]) -> Iterator[tuple[Path, str]]:
    """Yield the files and their texts. Sessions that could not be read back are left out."""
    for session in sessions:
        file = directory / f"{session['id']}.yaml"
        try:
            yield file, session_text(session, file)
        except UsageError as error:
            notices.append(f"left out {session['id']}: no session can hold it: {error.message}")


def _sessions(report: Path, contract: str | None, notices: list[str]) -> Iterator[JsonObject]:
    """Yield the sessions of a report by ReplayKit or Flakestorm."""
    data = read_bytes(report)
    value = parse_document(data, str(report), as_json=True).value
    if not isinstance(value, dict) or not value.keys() & {"items", "mutations"}:
        hint = "Write one: replaykit ci -o report.json"
        raise InvalidFile("neither a report of `ci` nor one of Flakestorm's", file=str(report), hint=hint)
    version = value.get("replaykit")
    if type(version) is int and version > CI_FORMAT:
        message = f"{report}: report format {version}, this version reads up to {CI_FORMAT}"
        raise FormatTooNew(message)
    try:
        if "items" in value:
            yield from _sessions_of_ci(msgspec.json.decode(data, type=CiResult), contract, notices)
        else:
            yield from _sessions_of_flakestorm(msgspec.json.decode(data, type=_FlakestormReport), contract)
    except msgspec.MsgspecError as error:
        raise InvalidFile(f"not a report: {error}", file=str(report)) from None


def _sessions_of_ci(result: CiResult, contract: str | None, notices: list[str]) -> Iterator[JsonObject]:
    for item in result.failures:
        why_not = _why_not(item)
        if why_not:
            notices.append(f"left out {item.part.value} {item.id!r}: {why_not}")
            continue
        yield _session(
            name=f"{item.part.value} {item.verdict}: {item.id}",
            source="replaykit ci",
            content=build_tagged(partial(_session_content, item)),
            reason=item.reason or _first_failure(item),
            contract=item.contract or contract,
        )


def _session_content(item: CiItem, say: Say) -> JsonObject:
    """Return the input and the tool answers."""
    context = item.context_json
    return {
        "input": say(item.input_json),
        **({} if context in (ABSENT, NULL) else {"context": say(context)}),
        "tool_responses": [session_answer(call, say) for call in item.calls],
    }


def _why_not(item: CiItem) -> str:
    if item.outcome is CiOutcome.UNTESTED:
        return "nothing was tested"
    if item.part is CiPartName.REPLAY and Path(item.file).name == CASE_FILE:
        return f"it is a case already, {item.file}"
    if item.input_json:
        return ""
    return "nothing was asked"


def _first_failure(item: CiItem) -> str:
    return next((finding.text for finding in item.failures), item.verdict)


def _sessions_of_flakestorm(report: _FlakestormReport, contract: str | None) -> Iterator[JsonObject]:
    for outcome in report.mutations:
        if outcome.passed:
            continue
        if isinstance(outcome.mutation, str):
            mutation = _FlakestormMutation(outcome.mutation)
        else:
            mutation = outcome.mutation
        failed = "; ".join(f"{check.check_type}: {check.details}" for check in outcome.checks if not check.passed)
        yield _session(
            name=f"mutation failed: {mutation.type}",
            source="flakestorm",
            content={"input": mutation.mutated, "tool_responses": []},
            reason=outcome.error or failed or "an invariant failed",
            contract=contract,
        )


def _session(*, name: str, source: str, content: JsonObject, reason: str, contract: str | None) -> JsonObject:
    """Return a session whose id is derived from its content, so that only equal failures share one."""
    plain = "".join(char if char.isprintable() else " " for char in name)[:_NAME_CHARS].strip()
    whole = {**content, "contract": contract} if contract else content
    digest = hashlib.sha256(canonical([plain, whole])).hexdigest()[:10]
    readable = slug("tool_call", plain).rpartition("-")[0] or "failure"
    return {"id": f"{readable}-{digest}", "name": plain, "source": source, **whole, "expected_failure": reason}
