"""A server on loopback that answers as Langfuse does: its traces up to version 3, its observations from 4 on."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.service_server import Fake, Said, Seen, serving

PUBLIC, SECRET = "pk-lf-0123456789", "sk-lf-abcdefabcdef"
PROJECT = "cloramnkj0002jz088vzn1ja4"
Trace = dict[str, Any]
_V2_FIELDS = {
    "core": ("id", "traceId", "startTime", "endTime", "projectId", "parentObservationId", "type"),
    "basic": ("name", "level", "statusMessage", "version", "environment", "userId", "sessionId"),
    "time": ("completionStartTime", "createdAt", "updatedAt"),
    "io": ("input", "output"),
    "metadata": ("metadata",),
    "model": ("providedModelName", "modelParameters"),
    "usage": ("usageDetails", "costDetails", "totalCost"),
    "prompt": ("promptId", "promptName", "promptVersion"),
    "metrics": ("latency",),
    "trace_context": ("tags", "release", "traceName"),
}


def _iso(time: datetime) -> str:
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def incident(trace_id: str = "4bf92f3577b34da6", *, failed: bool = True, after_s: float = 0, **more: Any) -> Trace:
    """A trace of an agent whose tool timed out, begun two days ago; it failed, or made do without."""
    began = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2) + timedelta(seconds=after_s)
    asked = [{"role": "user", "content": "What was ACME Corp's Q3 revenue?"}]
    uses = [
        {"id": "c1", "type": "function", "function": {"name": "market_data_api", "arguments": '{"company":"ACME"}'}}
    ]
    answer = {"role": "assistant", "content": None, "tool_calls": uses}

    def observed(name: str, kind: str, at_s: float, took_s: float, above: str | None = "agent", **said: Any) -> Trace:
        start = began + timedelta(seconds=at_s)
        return {
            "id": f"{trace_id}-{name}",
            "traceId": trace_id,
            "projectId": PROJECT,
            "type": kind,
            "name": name,
            "startTime": _iso(start),
            "endTime": _iso(start + timedelta(seconds=took_s)),
            "parentObservationId": f"{trace_id}-{above}" if above else None,
            "level": "DEFAULT",
            "statusMessage": None,
            "environment": "default",
            "metadata": {},
            "input": None,
            "output": None,
            "usage": {"unit": "TOKENS", "input": 0, "output": 0, "total": 0},
            "usageDetails": {},
            "costDetails": {},
            "latency": took_s,
            **said,
        }

    end: Trace = (
        {"level": "ERROR", "statusMessage": "ValueError: no figure"}
        if failed
        else {"output": {"answer": "unavailable"}}
    )
    late = {"level": "ERROR", "statusMessage": "TimeoutError: no answer in 30 s", "input": {"company": "ACME"}}
    tokens: Trace = {"input": 120, "output": 20, "total": 140}
    used: Trace = {"model": "gpt-4o", "usage": {**tokens, "unit": "TOKENS"}, "usageDetails": tokens}
    return {
        "id": trace_id,
        "timestamp": _iso(began),
        "name": "agent",
        "input": {"question": "What was ACME Corp's Q3 revenue?"},
        "output": None if failed else {"answer": "unavailable"},
        "projectId": PROJECT,
        "sessionId": "s1",
        "userId": "u9",
        "tags": ["prod"],
        "release": None,
        "version": None,
        "metadata": {},
        "public": False,
        "bookmarked": False,
        "environment": "default",
        "htmlPath": f"/project/{PROJECT}/traces/{trace_id}",
        "latency": 6.0,
        "totalCost": 0.001,
        "observations": [
            observed("agent", "AGENT", 0, 6, None, input={"question": "What was ACME Corp's Q3 revenue?"}, **end),
            observed("chat", "GENERATION", 0.5, 1, input=asked, output=answer, **used),
            observed("market_data_api", "TOOL", 2, 3, **late),
        ],
        "scores": [],
        **more,
    }


def score(trace_id: str, name: str, value: Any, kind: str) -> Trace:
    """A score as the third version of scores gives it."""
    return {
        "id": f"score-{name}",
        "projectId": PROJECT,
        "name": name,
        "value": value,
        "dataType": kind,
        "source": "ANNOTATION",
        "timestamp": _iso(datetime.now(UTC)),
        "environment": "default",
        "comment": "made up",
        "traceId": trace_id,
        "subject": {"kind": "trace", "id": trace_id},
    }


class FakeLangfuse(Fake):
    """What the server holds."""

    def __init__(self) -> None:
        super().__init__()
        self.traces: list[Trace] = []
        self.versions: tuple[int, ...] = (3,)
        self.page = 100

    def usual(self, seen: Seen) -> Said:
        given = base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
        if seen.headers.get("authorization") != f"Basic {given}":
            return Said(401, {"message": "Invalid credentials. Confirm that you've configured the correct host."})
        route = seen.route.removeprefix("/api/public")
        if 3 in self.versions and route == "/traces":
            return self._traces(seen)
        if 3 in self.versions and route.startswith("/traces/"):
            found = [trace for trace in self.traces if trace["id"] == route.rpartition("/")[2]]
            gone = {"message": "Trace not found within authorized project", "error": "LangfuseNotFoundError"}
            return Said(200, found[0]) if found else Said(404, gone)
        if 4 in self.versions and route == "/v2/observations":
            return self._observations(seen)
        if 4 in self.versions and route == "/v3/scores":
            scores = [s for trace in self.traces for s in trace["scores"] if s["traceId"] == seen.asks("traceId")]
            return self._by_cursor(scores, seen)
        return Said(404, b"<!DOCTYPE html><html>This page could not be found</html>")

    def _traces(self, seen: Seen) -> Said:
        """Filters go before the parameters beside them, as in the real one."""
        wanted = json.loads(seen.asks("filter") or "[]")
        since = seen.asks("fromTimestamp") if not wanted else None
        found = [t for t in self.traces if all(_fits(t, one) for one in wanted) and t["timestamp"] >= (since or "")]
        assert seen.asks("orderBy") == "timestamp.desc"
        found.sort(key=lambda trace: trace["timestamp"], reverse=True)
        page, size = int(seen.asks("page") or 1), min(self.page, int(seen.asks("limit") or 50))
        listed = [
            {**trace, "observations": [], "scores": [], "input": None, "output": None, "latency": -1, "totalCost": -1}
            for trace in found[(page - 1) * size : page * size]
        ]
        pages = -(-len(found) // size)
        return Said(
            200, {"data": listed, "meta": {"page": page, "limit": size, "totalItems": len(found), "totalPages": pages}}
        )

    def _observations(self, seen: Seen) -> Said:
        every = [(one, trace) for trace in self.traces for one in trace["observations"]]
        every.sort(key=lambda pair: pair[0]["startTime"], reverse=True)
        found = [
            _selected(one, trace, (seen.asks("fields") or "core,basic").split(","))
            for one, trace in every
            if seen.asks("traceId") in (None, one["traceId"])
            and seen.asks("level") in (None, one["level"])
            and one["startTime"] >= (seen.asks("fromStartTime") or "")
            and (seen.asks("isRootObservation") is None or one["parentObservationId"] is None)
        ]
        return self._by_cursor(found, seen)

    def _by_cursor(self, found: list[Trace], seen: Seen) -> Said:
        begin = int(base64.b64decode(seen.asks("cursor") or "MA=="))
        end = begin + min(self.page, int(seen.asks("limit") or 50))
        following = {"cursor": base64.b64encode(str(end).encode()).decode()} if end < len(found) else {}
        return Said(200, {"data": found[begin:end], "meta": following})


def _fits(trace: Trace, wanted: Trace) -> bool:
    errors = sum(one["level"] == "ERROR" for one in trace["observations"])
    value = {"errorCount": errors, "latency": trace["latency"], "timestamp": trace["timestamp"]}[wanted["column"]]
    return bool(value > wanted["value"] if wanted["operator"] == ">" else value >= wanted["value"])


def _selected(one: Trace, trace: Trace, groups: list[str]) -> Trace:
    """The fields of the groups; inputs and outputs are texts, and a model has another name."""
    whole = {
        **one,
        "traceName": trace["name"],
        "userId": trace["userId"],
        "sessionId": trace["sessionId"],
        "tags": trace["tags"],
        "providedModelName": one.get("model"),
        **{name: None if one[name] is None else json.dumps(one[name]) for name in ("input", "output")},
    }
    names = {name for group in ("core", *groups) for name in _V2_FIELDS[group]}
    return {name: whole.get(name) for name in names}


def set_account(fake: FakeLangfuse, monkeypatch: Any) -> None:
    """Let the environment name the server, and nothing else."""
    monkeypatch.delenv("LANGFUSE_HOST", raising=False)
    monkeypatch.setenv("LANGFUSE_BASE_URL", fake.url)
    monkeypatch.setenv("LANGFUSE_PUBLIC_KEY", PUBLIC)
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", SECRET)
    monkeypatch.setattr("replaykit.intake.services.transport.FIRST_PAUSE_S", 0.0)


@contextmanager
def langfuse_server() -> Iterator[FakeLangfuse]:
    """A server, for as long as the block runs."""
    with serving(FakeLangfuse()) as fake:
        yield fake
