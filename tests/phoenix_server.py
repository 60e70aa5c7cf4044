"""A server on loopback that answers as Phoenix does: spans of projects, and annotations of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.formats.samples import sample, unpacked
from tests.service_server import Fake, Said, Seen, serving

KEY = "phoenix-key-0123456789"
PROJECT = "support"
Span = dict[str, Any]


def spans_of(name: str, trace_id: str | None = None) -> list[Span]:
    """The spans of a sample as the API gives them: kinds apart, ids without `0x`, attributes flat."""
    dumped = json.loads(unpacked(sample(f"openinference/{name}.sdk_to_json.json")))
    found = [_span(span) for span in dumped]
    return [
        span | {"context": {**span["context"], "trace_id": trace_id or span["context"]["trace_id"]}} for span in found
    ]


def _span(dumped: Span) -> Span:
    attributes = dict(dumped["attributes"])
    kind = attributes.pop("openinference.span.kind", "UNKNOWN")
    above = dumped["parent_id"]
    return {
        "id": base64.b64encode(f"Span:{dumped['context']['span_id']}".encode()).decode(),
        "name": dumped["name"],
        "context": {name: dumped["context"][name].removeprefix("0x") for name in ("trace_id", "span_id")},
        "span_kind": kind,
        "parent_id": None if above is None else above.removeprefix("0x"),
        "start_time": dumped["start_time"].replace("Z", "+00:00"),
        "end_time": dumped["end_time"].replace("Z", "+00:00"),
        "status_code": dumped["status"]["status_code"],
        "status_message": dumped["status"].get("description", ""),
        "attributes": attributes,
        "events": [{**event, "timestamp": event["timestamp"].replace("Z", "+00:00")} for event in dumped["events"]],
    }


def annotation(of: str, target: str, name: str, **result: Any) -> Span:
    """An annotation of a span or of a trace."""
    return {
        "id": base64.b64encode(f"{of}:{name}".encode()).decode(),
        "created_at": "2026-11-15T19:00:00+00:00",
        "updated_at": "2026-11-15T19:00:00+00:00",
        "source": "API",
        "user_id": None,
        "name": name,
        "annotator_kind": "HUMAN",
        "result": {"label": None, "score": None, "explanation": None, **result},
        "metadata": {},
        "identifier": "",
        f"{of}_id": target,
    }


class FakePhoenix(Fake):
    """What the server holds."""

    def __init__(self) -> None:
        super().__init__()
        self.spans: list[Span] = []
        self.annotations: list[Span] = []
        self.page = 1000
        self.key = KEY
        self.is_old = False
        """Without annotations of traces, and without filters but those of time."""

    def usual(self, seen: Seen) -> Said:
        if self.key and seen.headers.get("authorization") != f"Bearer {self.key}":
            return Said(401, b"Invalid token")
        parts = seen.route.split("/")
        if parts[:3] != ["", "v1", "projects"] or len(parts) != 5:
            return Said(404, {"detail": "Not Found"})
        if parts[3] != PROJECT:
            return Said(404, {"detail": f"Project with name {parts[3]} not found"})
        if parts[4] == "spans":
            return self._page([span for span in reversed(self.spans) if self._fits(span, seen)], seen)
        if parts[4] in ("span_annotations", "trace_annotations") and not (self.is_old and "trace" in parts[4]):
            of = parts[4].partition("_")[0]
            named = seen.query[f"{of}_ids"]
            return self._page([one for one in self.annotations if one.get(f"{of}_id") in named], seen)
        return Said(404, {"detail": "Not Found"})

    def _fits(self, span: Span, seen: Seen) -> bool:
        if span["start_time"] < (seen.asks("start_time") or "").replace("Z", "+00:00"):
            return False
        if self.is_old:
            return True
        return (
            seen.asks("trace_id") in (None, span["context"]["trace_id"])
            and seen.asks("status_code") in (None, span["status_code"])
            and (seen.asks("parent_id") != "null" or span["parent_id"] is None)
        )

    def _page(self, found: list[Span], seen: Seen) -> Said:
        begin = int(seen.asks("cursor") or 0)
        end = begin + min(self.page, int(seen.asks("limit") or 10))
        return Said(200, {"data": found[begin:end], "next_cursor": str(end) if end < len(found) else None})


def set_account(fake: FakePhoenix, monkeypatch: Any) -> None:
    """Let the environment name the server, and nothing else."""
    for name in ("ENDPOINT", "BASE_URL", "HOST", "PORT", "CLIENT_HEADERS", "PROJECT", "PROJECT_NAME"):
        monkeypatch.delenv(f"PHOENIX_{name}", raising=False)
    monkeypatch.setenv("PHOENIX_COLLECTOR_ENDPOINT", fake.url)
    monkeypatch.setenv("PHOENIX_API_KEY", KEY)
    monkeypatch.setattr("replaykit.intake.services.transport.FIRST_PAUSE_S", 0.0)


@contextmanager
def phoenix_server() -> Iterator[FakePhoenix]:
    """A server, for as long as the block runs."""
    with serving(FakePhoenix()) as fake:
        yield fake
