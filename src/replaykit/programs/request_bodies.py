"""Request bodies at the proxy: held while they are small, known by their hash when they are not."""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import AsyncIterator
from functools import cached_property
from typing import IO, TYPE_CHECKING

import orjson

from replaykit.seam.http.request import WHOLE_BODY

if TYPE_CHECKING:
    from aiohttp import StreamReader

WHOLE_QUESTION = 64 * 1024 * 1024
"""A model's request is held up to here: it is matched by what it asks, which takes all of it."""

_BOUNDARY = re.compile(r'multipart/.*boundary="?([^";]+)"?', re.IGNORECASE)
_PIECE = 1 << 20


class Body:
    """The body of one request: its beginning, and whatever of it has not been read yet."""

    def __init__(self, limit: int = WHOLE_BODY, content_type: str = "") -> None:
        self._limit = limit
        self._content_type = content_type
        self._head: list[bytes] = []
        self._rest: StreamReader | None = None
        self._file: IO[bytes] | None = None

    async def read(self, content: StreamReader) -> Body:
        """Read up to the limit; what is beyond stays where it is, to be passed on as it comes."""
        size = 0
        while chunk := await content.readany():
            self._head.append(chunk)
            size += len(chunk)
            if size > self._limit:
                self._rest = content
                for part in self._head:
                    self._digest.update(part)
                break
        return self

    @cached_property
    def _digest(self) -> _Digest:
        return _Digest(self._content_type)

    @property
    def is_large(self) -> bool:
        return self._rest is not None or self._file is not None

    @property
    def whole(self) -> bytes:
        """All of it, when it is not large."""
        return b"".join(self._head)

    @property
    def match_bytes(self) -> bytes:
        """The bytes that are recorded and matched: the body itself, or for a large one its hash and size as JSON."""
        if self.is_large:
            return self._digest.as_json()
        return self.whole

    async def chunks(self) -> AsyncIterator[bytes]:
        """All of a large body, chunk by chunk as it comes."""
        for chunk in self._head:
            yield chunk
        if self._file is not None:
            self._file.seek(0)
            while chunk := self._file.read(_PIECE):
                yield chunk
        elif self._rest is not None:
            self._head.clear()
            async for chunk in self._rest.iter_any():
                self._digest.update(chunk)
                yield chunk

    async def spool(self) -> None:
        """Read the rest of a large body into a file, so that its hash is known before it is passed on."""
        if self._rest is None:
            return
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 (closed with the request)
        async for chunk in self._rest.iter_any():
            self._digest.update(chunk)
            self._file.write(chunk)
        self._rest = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


class _Digest:
    """The hash and size of a body in pieces, as `seam.http.request` takes them of a whole one: the boundary of a
    multipart body is drawn anew for each request, and counts as one word."""

    def __init__(self, content_type: str) -> None:
        found = _BOUNDARY.search(content_type)
        self._boundary = found[1].encode() if found else b""
        self._tail = b""  # what may be the beginning of a boundary
        self._hash = hashlib.sha256()
        self._size = 0

    def update(self, chunk: bytes) -> None:
        if not self._boundary:
            self._add(chunk)
            return
        *before, rest = (self._tail + chunk).split(self._boundary)
        for part in before:
            self._add(part)
            self._add(b"boundary")
        tail_size = min(len(rest), len(self._boundary) - 1)
        self._add(rest[: len(rest) - tail_size])
        self._tail = rest[len(rest) - tail_size :]

    def as_json(self) -> bytes:
        whole = self._hash.copy()
        whole.update(self._tail)
        return orjson.dumps({"sha256": whole.hexdigest(), "bytes": self._size + len(self._tail)})

    def _add(self, data: bytes) -> None:
        self._hash.update(data)
        self._size += len(data)
