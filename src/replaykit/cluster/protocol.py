"""The messages between the process that was started, the workers of an engine, and the processes that run cases there.

All of it is JSON in frames. Nothing in it executes.
"""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

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
    """Which replays leave their files."""

    passed: bool = False
    """True when all of them do."""
    unproven: bool = False
    """True when a `fixed` of a case that was never seen red does not pass."""
    isolation: IsolationLevel = IsolationLevel.NONE
    """The level below which a `fixed` does not pass."""

    def covers(self, result: ReplayResult) -> bool:
        """Return True when the files of this replay are kept."""
        if self.passed or result.verdict is not Verdict.FIXED:
            return True
        return bool(self.unproven and result.unproven) or result.isolation.level.strength < self.isolation.strength


class ClusterJob(Struct, frozen=True, kw_only=True):
    """All that the chunks of one suite have in common. Paths are relative to the bundle."""

    version: str
    """The version of ReplayKit."""
    python: str
    bundle: str
    """The hash of the bundle."""
    agent: WorkerJob
    config: str | None = None
    key_id: str = ""
    """Which redaction key the driver has; it says nothing about the key itself."""
    redacts: bool = True
    world: WorldOptions = WorldOptions()
    timeout_s: float | None = None
    keep: KeepRule = KeepRule()


class ReplayItem(Struct, frozen=True, tag="case"):
    """A case or a session to replay, by its id and its file."""

    id: str
    path: str


class RunItem(Struct, frozen=True, tag="run"):
    """A run of the agent in a world that comes along; its verdict is found where it came from."""

    consent: Consent
    task: bytes
    """A task as workers of this machine get it."""


Item = ReplayItem | RunItem


class WrittenLog(Struct, frozen=True):
    """A file that a run left."""

    path: str
    content: bytes


class ItemError(Struct, frozen=True, kw_only=True):
    """An error that a process met instead of an answer."""

    message: str
    hint: str | None = None
    exit_code: int
    file: str = ""
    line: int | None = None
    is_fatal: bool = True
    """False when it is the case's own, and the others go on."""


class ItemReply(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to one item."""

    result: ReplayResult | None = None
    attempt: Attempt | None = None
    input_json: Raw = ABSENT
    context_json: Raw = ABSENT
    files: tuple[WrittenLog, ...] = ()
    is_kept: bool = False
    """True when the result leaves evidence, with these files."""
    error: ItemError | None = None
    died: str = ""
    """How the process ended each time, where none gave an answer."""


def error_of(error: ReplayKitError, *, is_fatal: bool) -> ItemError:
    """Return an error as it is sent."""
    sent = ItemError(message=error.message, hint=error.hint, exit_code=error.exit_code, is_fatal=is_fatal)
    if isinstance(error, InvalidFile):
        return replace(sent, message=error.reason, file=error.file, line=error.line)
    return sent


def raised(error: ItemError) -> ReplayKitError:
    """Return an error as it was where it came from."""
    if error.file:
        return InvalidFile(error.message, file=error.file, line=error.line, hint=error.hint)
    if error.exit_code == ExitCode.USAGE:
        return UsageError(error.message, hint=error.hint)
    return FetchFailed(error.message, hint=error.hint)


def frames_of(messages: Sequence[bytes]) -> bytes:
    """Return several messages as one."""
    parts = []
    for message in messages:
        parts += [len(message).to_bytes(_LENGTH_BYTES, "big"), message]
    return zstandard.compress(b"".join(parts))


def messages_in(frames: bytes) -> list[bytes]:
    """Return the messages again."""
    whole = zstandard.decompress(frames)
    messages, begin = [], 0
    while begin < len(whole):
        size = int.from_bytes(whole[begin : begin + _LENGTH_BYTES], "big")
        begin += _LENGTH_BYTES
        messages.append(whole[begin : begin + size])
        begin += size
    return messages


def order_of(job: bytes, frames: bytes) -> str:
    """Return the hash by which a chunk of work is known: of the candidate, its cases, their seeds, and the options."""
    return hashlib.sha256(job + frames).hexdigest()
