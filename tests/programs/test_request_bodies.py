"""Request bodies in pieces: however they are cut, they are known by the same hash."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator

from hypothesis import given
from hypothesis import strategies as st

from replaykit.programs.proxy_handler import Body
from replaykit.seam.http.request import HttpRequest

pieces = st.lists(st.binary(min_size=1, max_size=9) | st.sampled_from([b"--b1", b"b1b1", b"boundary"]), max_size=12)


class Reader:
    """What aiohttp gives: the pieces as they come."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    async def readany(self) -> bytes:
        return self._parts.pop(0) if self._parts else b""

    async def iter_any(self) -> AsyncIterator[bytes]:
        while self._parts:
            yield self._parts.pop(0)


async def passed(body: Body) -> bytes:
    return b"".join([chunk async for chunk in body.chunks()])


@given(pieces, st.integers(0, 20), st.booleans())
def test_a_body_is_passed_on_as_it_came(parts: list[bytes], limit: int, put_aside: bool) -> None:
    async def go() -> tuple[Body, bytes, bytes]:
        body = await Body(limit).read(Reader(list(parts)))  # type: ignore[arg-type]
        if put_aside:
            await body.spool()
        sent = await passed(body) if body.is_large else body.whole
        known = body.match_bytes
        body.close()
        return body, sent, known

    whole = b"".join(parts)
    body, sent, known = asyncio.run(go())

    assert sent == whole
    assert body.is_large == (len(whole) > limit)
    if body.is_large:
        assert json.loads(known) == {"sha256": hashlib.sha256(whole).hexdigest(), "bytes": len(whole)}
    else:
        assert known == whole


@given(pieces)
def test_the_boundary_of_a_form_is_no_part_of_its_hash(parts: list[bytes]) -> None:
    async def known(boundary: bytes, size: int) -> bytes:
        data = b"".join(parts).replace(b"b1", boundary)
        cut = [data[start : start + size] for start in range(0, len(data), size)]
        kind = f"multipart/form-data; boundary={boundary.decode()}"
        body = await Body(0, kind).read(Reader(cut))  # type: ignore[arg-type]
        await body.spool()
        body.close()
        return body.match_bytes

    if b"".join(parts):
        assert asyncio.run(known(b"Q7Zx", 3)) == asyncio.run(known(b"K-0_Vw9", 5))


def test_the_hash_is_the_one_that_a_process_takes_of_the_whole(monkeypatch: object) -> None:
    from replaykit.handlers.recording.recorder import Recorder
    from replaykit.model.values import decode
    from replaykit.seam.http import request as asked
    from replaykit.seam.scope import RunSession

    big = b"--xyz\r\n" + b"a" * 100 + b"\r\n--xyz--"
    monkeypatch.setattr(asked, "WHOLE_BODY", 10)  # type: ignore[attr-defined]
    kind = "multipart/form-data; boundary=xyz"
    request = HttpRequest(method="POST", url="http://h/x", headers=(("content-type", kind),), body=big)
    scope = RunSession(Recorder(None)).root  # type: ignore[arg-type]

    async def known() -> bytes:
        body = await Body(10, kind).read(Reader([big[:9], big[9:50], big[50:]]))  # type: ignore[arg-type]
        await body.spool()
        body.close()
        return body.match_bytes

    assert decode(asked.pending(scope, request, None).arguments)["body"] == json.loads(asyncio.run(known()))
