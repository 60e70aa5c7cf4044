"""A server on loopback that answers as LangSmith does, in both versions of its API, and can be told to misbehave."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.service_server import Said as Said
from tests.service_server import Seen as Seen
from tests.service_server import serving

KEY = "lsv2_pt_0123456789abcdef0123456789abcdef_0123456789"
PROJECT_ID = "f966cc8b-6350-4583-99cf-1876b52b0f4e"
Run = dict[str, Any]


def flat(name: str, run_type: str = "chain", *, above: Run | None = None, after_s: float = 0, **more: Any) -> Run:
    """A run as the first version gives it: begun two days ago, and over after 6 seconds."""
    began = datetime.now(UTC).replace(microsecond=0) - timedelta(days=2) + timedelta(seconds=after_s)
    run_id = more.pop("id", None) or f"{above['id']}-{name}" if above else more.pop("id", name)
    order = f"{began:%Y%m%dT%H%M%S%f}Z{run_id}"
    return {
        "id": run_id,
        "name": name,
        "run_type": run_type,
        "start_time": began.replace(tzinfo=None).isoformat(),
        "end_time": (began + timedelta(seconds=6)).replace(tzinfo=None).isoformat(),
        "inputs": {},
        "outputs": {},
        "error": None,
        "status": "success",
        "extra": {"metadata": {"ls_run_depth": 0}, "runtime": {"sdk": "langsmith-py"}},
        "tags": [],
        "session_id": PROJECT_ID,
        "trace_id": above["trace_id"] if above else run_id,
        "parent_run_id": above["id"] if above else None,
        "parent_run_ids": [*above["parent_run_ids"], above["id"]] if above else [],
        "dotted_order": f"{above['dotted_order']}.{order}" if above else order,
        "total_cost": "0.00052065",
        **more,
    }


def incident(run_id: str = "abc123def456", **more: Any) -> list[Run]:
    """The trace of an agent whose first tool timed out and whose second found nothing; it failed."""
    failure = "ValueError('no figure')Traceback (most recent call last):\n\n\n  File \"agent.py\", line 9, in answer"
    late = "TimeoutError('no answer in 30 s')Traceback (most recent call last):\n"
    asked = {"inputs": {"input": "What was ACME Corp's Q3 revenue?"}, "outputs": None}
    root = flat("agent", id=run_id, **{**asked, "error": failure, "status": "error", **more})
    tools = flat("tools", above=root, after_s=1)
    failed = {"inputs": {"company": "ACME"}, "error": late, "status": "error"}
    found = {"inputs": {"query": "ACME"}, "outputs": {"output": "Nothing found"}}
    return [
        root,
        flat("ChatOpenAI", "llm", above=root, after_s=0.5, inputs={"messages": []}, outputs={"choices": []}),
        tools,
        flat("market_data_api", "tool", above=tools, after_s=2, **failed),
        flat("web_search", "tool", above=tools, after_s=3, **found),
    ]


class FakeLangSmith:
    """What the server holds, and what it was asked."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.projects = {"my-production-agent": PROJECT_ID}
        self.versions: tuple[int, ...] = (1, 2)
        self.page = 100
        self.payloads: dict[str, Any] = {}
        self.seen: list[Seen] = []
        self.said: Callable[[Seen], Said | None] = lambda _seen: None
        """An answer in place of the usual one."""
        self.url = ""

    def answer(self, seen: Seen) -> Said:
        self.seen.append(seen)
        given = self.said(seen)
        if given is not None:
            return given
        path = urlsplit(seen.path).path
        if path in self.payloads:
            return Said(200, self.payloads[path])
        if seen.headers.get("x-api-key") != KEY:
            return Said(401, {"detail": "Invalid token"})
        if path == "/api/v1/sessions":
            name = parse_qs(urlsplit(seen.path).query)["name"][0]
            return Said(200, [{"id": self.projects[name], "name": name}] if name in self.projects else [])
        if path.startswith("/api/v1/runs/") and seen.method == "GET":
            found = [run for run in self.runs if run["id"] == path.rpartition("/")[2]]
            return Said(200, found[0]) if found and 1 in self.versions else Said(404, {"detail": "Run not found"})
        for version in self.versions:
            if path == f"/api/v{version}/runs/query":
                return self._query(version, seen.body)
        return Said(404, {"detail": "Not Found"})

    def _query(self, version: int, asked: dict[str, Any]) -> Said:
        found = [run for run in self.runs if self._is_wanted(run, asked, version)]
        found.sort(key=lambda run: run["start_time"], reverse=True)
        begin = int(asked.get("cursor", 0))
        end = begin + min(self.page, asked["limit" if version == 1 else "page_size"])
        following = str(end) if end < len(found) else None
        page = [_selected(run, asked, version) for run in found[begin:end]]
        if version == 1:
            return Said(200, {"runs": page, "cursors": {"next": following, "prev": None}})
        return Said(200, {"items": page, "next_cursor": following})

    def _is_wanted(self, run: Run, asked: dict[str, Any], version: int) -> bool:
        names = (
            ("session", "start_time", "error", "trace", "id")
            if version == 1
            else ("project_ids", "min_start_time", "has_error", "trace_id", "ids")
        )
        projects, since, failed, trace, ids = (asked.get(name) for name in names)
        if projects is None or since is None:  # a query without them is refused, or sees the last day only
            return False
        return (
            run["session_id"] in projects
            and datetime.fromisoformat(run["start_time"]).replace(tzinfo=UTC) >= datetime.fromisoformat(since)
            and (failed is None or bool(run["error"]) == failed)
            and (trace is None or run["trace_id"] == trace)
            and (ids is None or run["id"] in ids)
            and (not asked.get("is_root") or run["parent_run_id"] is None)
        )


def _selected(run: Run, asked: dict[str, Any], version: int) -> Run:
    if version == 1:
        return {name: run.get(name) for name in asked["select"]}
    began, ended = (datetime.fromisoformat(run[name]) for name in ("start_time", "end_time"))
    whole = {
        **{name: value for name, value in run.items() if not name.endswith("_s3_urls")},
        "status": run["status"].upper(),
        "run_type": run["run_type"].upper(),
        "project_id": run["session_id"],
        "metadata": run["extra"]["metadata"],
        "latency_seconds": (ended - began).total_seconds(),
        "total_cost": float(run["total_cost"]),
        "is_root": run["parent_run_id"] is None,
    }
    return {name.lower(): whole.get(name.lower()) for name in asked["selects"]}


def set_account(fake: FakeLangSmith, monkeypatch: Any) -> None:
    """Let the environment name the server, and nothing else."""
    for name in ("LANGCHAIN_ENDPOINT", "LANGCHAIN_API_KEY", "LANGSMITH_WORKSPACE_ID", "REPLAYKIT_PAYLOAD_HOSTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANGSMITH_ENDPOINT", fake.url)
    monkeypatch.setenv("LANGSMITH_API_KEY", KEY)
    monkeypatch.setattr("replaykit.intake.services.transport.FIRST_PAUSE_S", 0.0)


@contextmanager
def langsmith_server() -> Iterator[FakeLangSmith]:
    """A server, for as long as the block runs."""
    with serving(FakeLangSmith()) as fake:
        yield fake
