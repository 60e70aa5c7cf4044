"""The messages between the process that starts a suite, the workers of an engine, and the processes that run cases.

They are framed JSON. Nothing in them is executed.
"""

# No `from __future__ import annotations`: msgspec would compile the text of each annotation once per class.

import hashlib
from collections.abc import Sequence

import zstandard
from msgspec import Struct
from msgspec.structs import replace

from replaykit.candidates.attempt import Attempt
from replaykit.candidates.worker_protocol import WorkerJob
from replaykit.candidates.worlds import WorldOptions
from replaykit.errors import ExitCode, FetchFailed, InvalidFile, ReplayKitError, UsageError
from replaykit.model.isolation import Consent, IsolationLevel
from replaykit.model.result import ReplayResult, Verdict
from replaykit.model.values import ABSENT, Raw

_LENGTH_BYTES = 4


class KeepRule(Struct, frozen=True, kw_only=True):
    """Which replays keep their files."""

    passed: bool = False
    """True if all of them do."""
    unproven: bool = False
    """True if a `fixed` of a case that was never seen red does not pass."""
    isolation: IsolationLevel = IsolationLevel.NONE
    """The lowest isolation with which a `fixed` passes."""

    def covers(self, result: ReplayResult) -> bool:
        """Return whether to keep the files of a replay."""
        if self.passed or result.verdict is not Verdict.FIXED:
            return True
        return bool(self.unproven and result.unproven) or result.isolation.level.strength < self.isolation.strength


class ClusterJob(Struct, frozen=True, kw_only=True):
    """The settings that all chunks of a suite share. Paths are relative to the bundle."""

    version: str
    """The version of ReplayKit."""
    python: str
    bundle: str
    """The hash of the bundle."""
    agent: WorkerJob
    config: str | None = None
    key_id: str = ""
    """Identifies the driver's redaction key without revealing it."""
    redacts: bool = True
    world: WorldOptions = WorldOptions()
    timeout_s: float | None = None
    keep: KeepRule = KeepRule()


class ReplayItem(Struct, frozen=True, tag="case"):
    """A case or session to replay, by id and file."""

    id: str
    path: str


class RunItem(Struct, frozen=True, tag="run"):
    """A run of the agent in the included world. The sender judges it."""

    consent: Consent
    task: bytes
    """A task in the form that local workers get."""


Item = ReplayItem | RunItem


class WrittenLog(Struct, frozen=True):
    """A file left by a run."""

    path: str
    content: bytes


class ItemError(Struct, frozen=True, kw_only=True):
    """An error that occurred instead of a reply."""

    message: str
    hint: str | None = None
    exit_code: int
    file: str = ""
    line: int | None = None
    is_fatal: bool = True
    """False if it concerns only this case, so that the others continue."""


class ItemReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The reply to one item."""

    result: ReplayResult | None = None
    attempt: Attempt | None = None
    input_json: Raw = ABSENT
    context_json: Raw = ABSENT
    files: tuple[WrittenLog, ...] = ()
    is_kept: bool = False
    """True if the result leaves evidence with these files."""
    error: ItemError | None = None
    died: str = ""
    """How each process ended, if none replied."""


def error_of(error: ReplayKitError, *, is_fatal: bool) -> ItemError:
    """Convert an error for sending."""
    sent = ItemError(message=error.message, hint=error.hint, exit_code=error.exit_code, is_fatal=is_fatal)
    if isinstance(error, InvalidFile):
        return replace(sent, message=error.reason, file=error.file, line=error.line)
    return sent


def raised(error: ItemError) -> ReplayKitError:
    """Restore a sent error."""
    if error.file:
        return InvalidFile(error.message, file=error.file, line=error.line, hint=error.hint)
    if error.exit_code == ExitCode.USAGE:
        return UsageError(error.message, hint=error.hint)
    return FetchFailed(error.message, hint=error.hint)


def frames_of(messages: Sequence[bytes]) -> bytes:
    """Pack several messages into one."""
    parts = []
    for message in messages:
        parts += [len(message).to_bytes(_LENGTH_BYTES, "big"), message]
    return zstandard.compress(b"".join(parts))


def messages_in(frames: bytes) -> list[bytes]:
    """Unpack the messages."""
    whole = zstandard.decompress(frames)
    messages, begin = [], 0
    while begin < len(whole):
        size = int.from_bytes(whole[begin : begin + _LENGTH_BYTES], "big")
        begin += _LENGTH_BYTES
        messages.append(whole[begin : begin + size])
        begin += size
    return messages


def order_of(job: bytes, frames: bytes) -> str:
    """Return the hash that identifies a chunk of work: candidate, cases, seeds and options."""
    return hashlib.sha256(job + frames).hexdigest()
