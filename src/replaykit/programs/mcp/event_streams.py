"""Streams of events whose data may be changed on the way: cut into whole events, all else byte for byte."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Sequence

_END = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_DATA = re.compile(rb"(?:^|(?<=[\r\n]))data(?::[^\r\n]*)?(?:\r\n|\r|\n|$)")


async def whole_events(
    chunks: AsyncGenerator[bytes, None], decode: Callable[[bytes], bytes]
) -> AsyncGenerator[bytes, None]:
    """The same bytes, each time one event with the line that ends it; at last what has no end."""
    rest = b""
    async for chunk in chunks:
        rest += decode(chunk)
        while found := _END.search(rest):
            yield rest[: found.end()]
            rest = rest[found.end() :]
    if rest:
        yield rest


def with_data(event: bytes, replacements: Sequence[bytes | None]) -> bytes:
    """An event with other data, where there is any; its id and name stay."""
    data = next((data for data in replacements if data is not None), None)
    if data is None:
        return event
    fields = _DATA.sub(b"", event).strip(b"\r\n")
    if fields:
        return b"%s\ndata: %s\n\n" % (fields, data)
    return b"data: %s\n\n" % data
