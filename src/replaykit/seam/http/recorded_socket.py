"""A socket with a recorded response, for libraries that parse HTTP/1.1 themselves."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Any

from replaykit.seam.http.response import Served, http1_body, http1_head, in_time


class RecordedSocket:
    """The part of a socket that http.client needs. Writes are ignored."""

    def __init__(self, served: Served | None = None, error: BaseException | None = None) -> None:
        """`error` is raised after the response, or instead of it if there is none."""
        self._frames = iter(()) if served is None else _frames(served, error)

    def makefile(self, *_: Any, **__: Any) -> io.BufferedReader:
        return io.BufferedReader(_FrameReader(self._frames))

    def sendall(self, *_: Any) -> None:
        pass

    settimeout = setsockopt = shutdown = close = sendall


def _frames(served: Served, error: BaseException | None) -> Iterator[bytes]:
    served.wait()
    if served.status:
        yield http1_head(served)
        yield from http1_body(served, in_time(served))
    if error is not None:
        raise error


class _FrameReader(io.RawIOBase):
    """A file whose reads never cross the end of a frame, so that chunks stay the same."""

    def __init__(self, frames: Iterator[bytes]) -> None:
        self._frames = frames
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._rest:
            frame = next(self._frames, None)
            if frame is None:
                return 0
            self._rest = memoryview(frame)
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
