"""Proof: that a case was seen to fail, and a fix to pass. A green rests on a red.

    cases/search-loop/proof.json
      {"replaykit": 1,
       "red": {"candidate": "python bad.py", "at": "2026-02-15T14:32:00Z", "tape": "…", "signatures": "…"},
       "green": {"candidate": "python good.py", …}}

If the unchanged agent did not fail again when the case was made, `not_reproduced` records that: without a red on that
tape, nothing counts as fixed on it.

The proof has a file of its own, so that comments in `case.yaml` survive, branches rarely conflict, and older versions
ignore it. It holds for one tape and one set of signatures, both named by digests; a changed case has to be proven
again.
"""

# No `from __future__ import annotations`: msgspec would compile each annotation from text, once for every class.

import datetime as dt
import os
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

import msgspec
from msgspec import Struct

from replaykit.cases.case import CASE_FILE, RECORDED, ReplayCase
from replaykit.cases.fixture_reader import MAX_FIXTURE_BYTES
from replaykit.cases.takes import take_files
from replaykit.documents.document import confined_file, read_bytes
from replaykit.documents.slug import slug
from replaykit.documents.struct_files import read_struct
from replaykit.errors import ReplayKitError
from replaykit.model.values import canonical, encode_pretty, read_members
from replaykit.redaction.files import clean_text, file_redactor, refuse_leaks, replace_file, writing

PROOF_FORMAT = 1
"""Version of the proof file; readers accept every older one."""
PROOF_FILE = "proof.json"
"""The file beside a `case.yaml`; for a session, the session's id goes in front."""
RECORDED_RUN = "the recorded run"
"""The candidate that checks every new case: the recorded run, judged by the finished case."""
_MAX_BYTES = 1 << 20
_DIGEST_CHARS = 32


class ProofEntry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One red or green: the candidate, the time, and the tape."""

    candidate: str
    at: str
    """ISO 8601, in UTC."""
    tape: str
    """The digest of the take's input and calls."""
    signatures: str
    """The digest of `observed`."""
    repeats: int = 1
    """The number of runs that agreed."""
    take: str = RECORDED
    """The take it was served from."""


class NotReproduced(Struct, frozen=True, kw_only=True):
    """An unchanged agent that did not fail again when the case was made."""

    candidate: str
    at: str
    tape: str
    signatures: str
    verdict: str
    """The verdict of its replay, which was not `reproduced`."""


class Proof(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was seen of a case: that it can fail, and that a fix passes."""

    replaykit: int
    red: ProofEntry | None = None
    green: ProofEntry | None = None
    not_reproduced: NotReproduced | None = None
    """Cleared by a red of any candidate but the recorded run."""


NOTHING_SEEN = Proof(replaykit=PROOF_FORMAT)


class Standing(StrEnum):
    """What a green of the case rests on."""

    RED = "red"  # the case was seen to fail in its current form
    NEVER_RED = "never_red"  # nothing shows that it can fail
    STALE = "stale"  # it was seen to fail, but has changed since
    NOT_REPRODUCED = "not_reproduced"  # the original agent did not fail again
    UNKNOWN = "unknown"  # its proof cannot be read


class Identity(Struct, frozen=True, kw_only=True):
    """The parts of a case that a proof holds for, as digests."""

    tape: str
    signatures: str


def proof_path(case: ReplayCase) -> Path | None:
    """Return the proof file of a case; None for a case without a file."""
    if not case.file_name or not case.file.is_file():
        return None
    if case.file_name == CASE_FILE:
        name = PROOF_FILE
    else:
        name = f"{slug('tool_call', case.id)}.{PROOF_FILE}"
    return confined_file(case.directory, name)


def is_proof(file_name: str) -> bool:
    """True for the name of a proof file."""
    return file_name == PROOF_FILE or file_name.endswith(f".{PROOF_FILE}")


def read_proof(case: ReplayCase) -> Proof:
    """Return the proof of the case; empty if there is no file."""
    file = proof_path(case)
    if file is None or not os.path.lexists(file):
        return NOTHING_SEEN
    hint = f"Delete it, and {_prove_it(case)}"
    return read_struct(file, Proof, newest=PROOF_FORMAT, noun="proof format {}", limit_bytes=_MAX_BYTES, hint=hint)


def identity_of(case: ReplayCase, take: str = RECORDED, *, rewritten: Mapping[Path, bytes] | None = None) -> Identity:
    """Return the digests of a take of the case and of its signatures.

    `rewritten` are new texts for fixture files.
    """
    texts = rewritten or {}
    calls: list[bytes] = []
    if case.tape is None or take != RECORDED:
        # The file of a large value is named by its digest, so the name stands for the value.
        for file in take_files(case, take):
            calls += _recorded_in(texts.get(file) or read_bytes(file, limit_bytes=MAX_FIXTURE_BYTES))
    else:
        calls += map(msgspec.json.encode, case.tape)
    if case.scenario.tool_errors:  # only if present, so that the digests of other cases stay the same
        calls.append(canonical(sorted(case.scenario.tool_errors)))
    observed = canonical([[assertion.kind, assertion.value] for assertion in case.observed])
    return Identity(tape=_digest(bytes(case.scenario.input_json), *calls), signatures=_digest(observed))


def _recorded_in(text: bytes) -> list[bytes]:
    """Return the parts of a fixture file that affect answers: not its version or whitespace."""
    try:
        fields = read_members(msgspec.json.format(text, indent=-1))
    except msgspec.MsgspecError:
        return [text]  # reading the fixtures reports the error
    return [bytes(fields[key]) for key in sorted(fields) if key != "replaykit"]


def _digest(*parts: bytes) -> str:
    import hashlib  # noqa: PLC0415 (slow to import, and few commands need a digest)

    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "big") + part)
    return whole.hexdigest()[:_DIGEST_CHARS]


def standing_of(case: ReplayCase) -> tuple[Standing, str]:
    """Return the standing of the case, and a problem with it in words; empty for a proven case."""
    try:
        proof = read_proof(case)
        red, unfailing = proof.red, proof.not_reproduced
        if red is None and unfailing is None:
            return Standing.NEVER_RED, "never seen red: nothing shows that this case can fail"
        now = identity_of(case)
    except ReplayKitError as error:
        return Standing.UNKNOWN, f"its proof cannot be read: {error.message}"
    if unfailing is not None and (unfailing.tape, unfailing.signatures) == (now.tape, now.signatures):
        return Standing.NOT_REPRODUCED, _in_words(unfailing)
    if red is None:
        return Standing.STALE, "not seen red since it changed"
    if red.tape != now.tape:
        return Standing.STALE, "not seen red since its tape changed"
    if red.signatures != now.signatures:
        return Standing.STALE, "not seen red since its signatures changed"
    return Standing.RED, ""


def _in_words(unfailing: NotReproduced) -> str:
    return (
        f"the unchanged candidate did not reproduce the failure: {unfailing.candidate} was {unfailing.verdict} "
        f"when the case was made, on {unfailing.at[:10]}"
    )


def prove_hint(case: ReplayCase) -> str:
    """Return the command that proves the case."""
    return f"Prove it: {_prove_it(case)}"


def _prove_it(case: ReplayCase) -> str:
    place = case.directory if case.file_name == CASE_FILE else case.file
    return f"replaykit prove {place} --bad CANDIDATE --good CANDIDATE"


def proof_after(case: ReplayCase, rewritten: Mapping[Path, bytes]) -> bytes | None:
    """Return the new text of a proof that still holds after a rewrite of the fixtures; None to keep it as it is.

    `rewritten` are the new texts of fixture files.
    """
    # Digests cover the text of the fixtures, so another spelling of the same tape would void the proof.
    before, after = identity_of(case).tape, identity_of(case, rewritten=rewritten).tape
    proof = read_proof(case)
    moved = {}
    for name in ("red", "green", "not_reproduced"):
        seen = getattr(proof, name)
        if seen is not None and seen.tape == before:
            moved[name] = msgspec.structs.replace(seen, tape=after)
    if before == after or not moved:
        return None
    return encode_pretty(msgspec.structs.replace(proof, **moved))


class ProofWriter:
    """Writes sightings into a case's proof, keeping older ones that still hold."""

    def __init__(self, case: ReplayCase) -> None:
        self._case = case

    def write(
        self, *, red: str | None = None, green: str | None = None, green_take: str = RECORDED, repeats: int = 1
    ) -> Path | None:
        """Record that these candidates were red, on the recorded take, and green; return the file if it changed."""
        file = proof_path(self._case)
        if file is None:
            return None
        before = read_proof(self._case)
        has_failed_again = red is not None and red != RECORDED_RUN
        proof = Proof(
            replaykit=PROOF_FORMAT,
            red=self._seen(before.red, red, repeats, RECORDED),
            green=self._seen(before.green, green, repeats, green_take),
            not_reproduced=None if has_failed_again else before.not_reproduced,
        )
        if proof == before:
            return None
        _write(file, proof)
        return file

    def write_not_reproduced(self, candidate: str, verdict: str) -> None:
        """Record that the original agent did not fail again."""
        file = proof_path(self._case)
        if file is None:
            return
        now = identity_of(self._case)
        unfailing = NotReproduced(
            candidate=clean_text(candidate, file_redactor()),
            at=_now(),
            tape=now.tape,
            signatures=now.signatures,
            verdict=verdict,
        )
        _write(file, msgspec.structs.replace(read_proof(self._case), not_reproduced=unfailing))

    def _seen(self, before: ProofEntry | None, candidate: str | None, repeats: int, take: str) -> ProofEntry | None:
        """Return the sighting to write: the older one if it says the same."""
        if candidate is None:
            return before
        now = identity_of(self._case, take)
        seen = ProofEntry(
            candidate=clean_text(candidate, file_redactor()),
            at=_now(),
            tape=now.tape,
            signatures=now.signatures,
            repeats=repeats,
            take=take,
        )
        if before is not None and msgspec.structs.replace(before, at=seen.at) == seen:
            return before
        return seen


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _write(file: Path, proof: Proof) -> None:
    text = encode_pretty(proof)
    refuse_leaks({str(file): text}, file_redactor())
    with writing(file):
        replace_file(file, text)
