"""One task for one process, and its reply: over pipes, so that neither is ever a file.

What a candidate is given and what it did is judged as it is; what is written of it is redacted. Where a process cannot
be handed pipes, the two are files in a directory that is gone when the process is.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING

from msgspec import MsgspecError

from replaykit.candidates.worker_protocol import Reply, Task, receive_reply, receive_task, send_reply, send_task

if TYPE_CHECKING:
    from pathlib import Path

TALK = "REPLAYKIT_TALK"
"""The variable that tells the process where: two file descriptors, or a directory."""
_TASK, _REPLY = "task", "reply"
_LATE_S = 5.0


class TaskSender:
    """This process's side, as a `with` block around the other process; the reply is there when it ends."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._cleanup = contextlib.ExitStack()
        self.handed: tuple[int, ...] = ()
        """The file descriptors that the process must have."""
        self.address = ""
        self.reply: Reply | None = None

    def __enter__(self) -> TaskSender:
        if os.name == "posix":
            task_source, task_sink = os.pipe()
            reply_source, reply_sink = os.pipe()
            self.handed = task_source, reply_sink
            self.address = f"{task_source},{reply_sink}"
            self._thread = threading.Thread(target=self._talk, args=(task_sink, reply_source), daemon=True)
            self._thread.start()
        else:
            from tempfile import TemporaryDirectory  # noqa: PLC0415 (slow to import, and pipes need none)

            self.address = self._cleanup.enter_context(TemporaryDirectory(prefix="replaykit-"))
            with _file(self.address, _TASK).open("wb") as stream:
                send_task(stream, self._task)
        return self

    def __exit__(self, *_: object) -> None:
        if self.handed:
            for handle in self.handed:  # whoever else held them has gone: nobody waits for ever
                os.close(handle)
            self._thread.join(_LATE_S)  # a process of its own that the agent left behind may hold the pipe
        else:
            file = _file(self.address, _REPLY)
            with contextlib.suppress(OSError, ValueError, MsgspecError), file.open("rb") as stream:
                self.reply = receive_reply(stream, self._task.world.calls)
        self._cleanup.close()

    def _talk(self, sink: int, source: int) -> None:
        with os.fdopen(source, "rb") as replies:
            with contextlib.suppress(OSError), os.fdopen(sink, "wb") as out:  # it died before it was told
                send_task(out, self._task)
            with contextlib.suppress(OSError, ValueError, MsgspecError):  # it died, or says what is no reply
                self.reply = receive_reply(replies, self._task.world.calls)


class TaskChannel:
    """The other process's side: the task, and where the reply goes. The agent sees nothing of it."""

    def __init__(self) -> None:
        address = os.environ.pop(TALK)
        task, comma, reply = address.partition(",")
        self._reply: int | Path = int(reply) if comma else _file(address, _REPLY)
        self._once = threading.Lock()
        self._process = os.getpid()
        with os.fdopen(int(task), "rb") if comma else _file(address, _TASK).open("rb") as stream:
            found = receive_task(stream)
        if found is None:
            raise SystemExit("there is no task")  # whoever gave it has gone
        if isinstance(self._reply, int):
            os.set_inheritable(self._reply, False)
        self.task = found

    def say(self, reply: Reply) -> None:
        """Give the reply; only the first one goes out."""
        if os.getpid() != self._process:
            os._exit(0)  # the agent forked, and this is the copy: the original answers
        if not self._once.acquire(blocking=False):
            threading.Event().wait()  # the process ends by whoever was first
        if isinstance(self._reply, int):
            stream = os.fdopen(self._reply, "wb")
        else:
            stream = self._reply.open("wb")
        with stream:
            send_reply(stream, reply, self.task.world.calls)


def _file(directory: str, name: str) -> Path:
    from pathlib import Path  # noqa: PLC0415 (slow to import, and pipes need none)

    return Path(directory, name)
