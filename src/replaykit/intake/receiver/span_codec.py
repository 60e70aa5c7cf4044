"""Packing: the spans of one trace in one request, as the bytes that the spool keeps.

Ids and times stand apart from what people wrote: only the latter is cleaned, so nothing a redactor does can break the
links between spans.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from replaykit.formats.spans.span import Span, SpanEvent
from replaykit.model.values import Json

Clean = Callable[[bytes], bytes]
"""JSON text in, the same without secrets out."""

_Head = tuple[str, str, str, int, int, bool, bool, tuple[int, ...]]
_SpanContent = tuple[int, str, str, str, dict[str, Json], list[tuple[dict[str, Json], str, Json]]]
"""No text comes first: a list of lists that begin with one looks like headers, which a redactor looks at one by one."""


class _Content(msgspec.Struct, frozen=True):
    """Texts of people and programs, which are redacted."""

    resources: list[dict[str, Json]]
    spans: list[_SpanContent]


_encode = msgspec.json.Encoder().encode
_decode_heads = msgspec.json.Decoder(list[_Head]).decode
_decode_content = msgspec.json.Decoder(_Content).decode


def as_it_is(text: bytes) -> bytes:
    """Cleans nothing."""
    return text


def pack(spans: list[Span], clean: Clean) -> bytes:
    """The spans as bytes."""
    resources: dict[int, tuple[int, dict[str, Json]]] = {}  # spans of one request share the object
    heads: list[_Head] = []
    contents: list[_SpanContent] = []
    for span in spans:
        number, _ = resources.setdefault(id(span.resource), (len(resources), span.resource))
        times = tuple(happening.at_ns for happening in span.happenings)
        heads.append(
            (span.trace, span.id, span.parent, span.started_ns, span.ended_ns, span.failed, span.is_aside, times)
        )
        moments = [(happening.attributes, happening.name, happening.body) for happening in span.happenings]
        contents.append((number, span.name, span.message, span.scope, span.attributes, moments))
    head = _encode(heads)
    content = clean(_encode({"resources": [resource for _, resource in resources.values()], "spans": contents}))
    return b"%d\n%b%b" % (len(head), head, content)


def unpack(body: bytes) -> list[Span]:
    """The spans that `pack` was given; ValueError or `msgspec.MsgspecError` when the bytes are something else."""
    size, _, rest = body.partition(b"\n")
    heads, content = _decode_heads(rest[: int(size)]), _decode_content(rest[int(size) :])
    return [
        _span(head, span_content, content.resources) for head, span_content in zip(heads, content.spans, strict=True)
    ]


def _span(head: _Head, content: _SpanContent, resources: list[dict[str, Json]]) -> Span:
    trace, span_id, parent, started_ns, ended_ns, failed, is_aside, times = head
    number, name, message, scope, attributes, moments = content
    return Span(
        trace=trace,
        id=span_id,
        parent=parent,
        name=name,
        started_ns=started_ns,
        ended_ns=ended_ns,
        failed=failed,
        message=message,
        attributes=attributes,
        happenings=tuple(
            SpanEvent(name=what, at_ns=at_ns, attributes=event_attributes, body=body)
            for at_ns, (event_attributes, what, body) in zip(times, moments, strict=True)
        ),
        scope=scope,
        resource=resources[number],
        is_aside=is_aside,
    )
