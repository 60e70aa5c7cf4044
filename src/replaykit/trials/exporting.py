"""Failures of a report as sessions: what was really asked, what the tools really answered, the contract it broke."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import CASE_FILE
from replaykit.cases.document import parse_document, read_bytes
from replaykit.cases.seen_calls import session_answer
from replaykit.cases.session_files import holds, session_text, write_session
from replaykit.cases.slug import slug
from replaykit.cases.tagged import Say, said
from replaykit.errors import FormatTooNew, InvalidFile, NothingSelected, UsageError
from replaykit.model.values import ABSENT, NULL, Json, canonical
from replaykit.trials.ci_result import CI_FORMAT, CiItem, CiResult, Outcome, Part

_NAME_CHARS = 150


class Exported(Struct, frozen=True, kw_only=True):
    """What was written, what was there already, and what to tell whoever asked."""

    written: tuple[Path, ...]
    unchanged: tuple[Path, ...] = ()
    notices: tuple[str, ...] = ()


class _Mutation(Struct, frozen=True):
    """Of a Flakestorm report: what was said."""

    mutated: str
    type: str = "mutation"


class _Check(Struct, frozen=True):
    passed: bool
    check_type: str = ""
    details: str = ""


class _Mutated(Struct, frozen=True):
    """Of a Flakestorm report: one mutation, and what came of it."""

    passed: bool
    mutation: _Mutation | str
    error: str | None = None
    checks: tuple[_Check, ...] = ()


class _Foreign(Struct, frozen=True):
    mutations: tuple[_Mutated, ...]


def export_failures(report: Path, directory: Path, *, contract: str | None = None, force: bool = False) -> Exported:
    """Write a session file for each failure of a report; `contract` is for those whose report names none."""
    notices: list[str] = []
    sessions = list(_sessions(report, contract, notices))
    files = dict(_files(sessions, directory, notices))
    if not files:
        raise NothingSelected(f"{report} holds no failure to export", hint="\n".join(notices) or None)
    unchanged = tuple(file for file, text in files.items() if holds(file, text))
    taken = [file for file in files if file not in unchanged and file.exists()]
    if taken and not force:
        raise UsageError(f"{taken[0]} is there already, and says something else", hint="Replace it: --force")
    if any("contract" not in session for session in sessions):
        notices.append("the report names no contract: the sessions keep the one called `default`; or --contract NAME")
    written = tuple(write_session(file, text) for file, text in files.items() if file not in unchanged)
    return Exported(written=written, unchanged=unchanged, notices=tuple(notices))


def _files(sessions: Iterable[dict[str, Json]], directory: Path, notices: list[str]) -> Iterator[tuple[Path, str]]:
    """The files and their texts; one that could not be read again is left out."""
    for session in sessions:
        file = directory / f"{session['id']}.yaml"
        try:
            yield file, session_text(session, file)
        except UsageError as error:
            notices.append(f"left out {session['id']}: no session can hold it: {error.message}")


def _sessions(report: Path, contract: str | None, notices: list[str]) -> Iterator[dict[str, Json]]:
    """The sessions of a report, ours or Flakestorm's."""
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
            yield from _ours(msgspec.json.decode(data, type=CiResult), contract, notices)
        else:
            yield from _theirs(msgspec.json.decode(data, type=_Foreign), contract)
    except msgspec.MsgspecError as error:
        raise InvalidFile(f"not a report: {error}", file=str(report)) from None


def _ours(result: CiResult, contract: str | None, notices: list[str]) -> Iterator[dict[str, Json]]:
    for item in result.failures:
        why_not = _why_not(item)
        if why_not:
            notices.append(f"left out {item.part.value} {item.id!r}: {why_not}")
            continue
        yield _session(
            name=f"{item.part.value} {item.verdict}: {item.id}",
            source="replaykit ci",
            told=said(partial(_told, item)),
            reason=item.reason or _first_failure(item),
            contract=item.contract or contract,
        )


def _told(item: CiItem, say: Say) -> dict[str, Json]:
    """What was asked, and what the tools answered."""
    context = item.context_json
    return {
        "input": say(item.input_json),
        **({} if context in (ABSENT, NULL) else {"context": say(context)}),
        "tool_responses": [session_answer(call, say) for call in item.calls],
    }


def _why_not(item: CiItem) -> str:
    if item.outcome is Outcome.UNTESTED:
        return "nothing was tested"
    if item.part is Part.REPLAY and Path(item.file).name == CASE_FILE:
        return f"it is a case already, {item.file}"
    return "" if item.input_json else "nothing was asked"


def _first_failure(item: CiItem) -> str:
    return next((finding.text for finding in item.failures), item.verdict)


def _theirs(report: _Foreign, contract: str | None) -> Iterator[dict[str, Json]]:
    for one in report.mutations:
        if one.passed:
            continue
        mutation = _Mutation(one.mutation) if isinstance(one.mutation, str) else one.mutation
        failed = "; ".join(f"{check.check_type}: {check.details}" for check in one.checks if not check.passed)
        yield _session(
            name=f"mutation failed: {mutation.type}",
            source="flakestorm",
            told={"input": mutation.mutated, "tool_responses": []},
            reason=one.error or failed or "an invariant failed",
            contract=contract,
        )


def _session(*, name: str, source: str, told: dict[str, Json], reason: str, contract: str | None) -> dict[str, Json]:
    """A session. Its id is made of what is in it: those of two reports are the same only for the same failure."""
    plain = "".join(char if char.isprintable() else " " for char in name)[:_NAME_CHARS].strip()
    whole = {**told, "contract": contract} if contract else told
    digest = hashlib.sha256(canonical([plain, whole])).hexdigest()[:10]
    readable = slug("tool_call", plain).rpartition("-")[0] or "failure"
    return {"id": f"{readable}-{digest}", "name": plain, "source": source, **whole, "expected_failure": reason}
