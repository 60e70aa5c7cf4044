"""The services that store runs, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from replaykit.intake.entries import ImportRecord
    from replaykit.intake.services.fetching import RunService

LANGSMITH, LANGFUSE, PHOENIX, MLFLOW = SERVICES = ("langsmith", "langfuse", "phoenix", "mlflow")
_APIS = {LANGFUSE: "LangfuseApi", PHOENIX: "PhoenixApi", MLFLOW: "MlflowApi"}


def open_service(service: str, timeout_s: float | None = None) -> RunService:
    """Return the service under the address in the environment; a `UsageError` names a missing variable."""
    # The modules are slow to import, and a command needs one of them.
    from replaykit.intake.services.fetching import Service  # noqa: PLC0415
    from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S, Transport  # noqa: PLC0415

    home = import_module(f"replaykit.intake.services.{service}")
    if timeout_s is None:
        timeout_s = DEFAULT_TIMEOUT_S
    if service == LANGSMITH:
        run_service: RunService = home.LangSmith(timeout_s=timeout_s)
        return run_service
    account = home.account_of()
    transport = Transport(account, timeout_s)
    return Service(getattr(home, _APIS[service])(account, transport), transport)


def fetch_records(
    service: str,
    run_ids: Sequence[str],
    project: str,
    *,
    status: str = "error",
    since: str | None = None,
    min_latency_ms: float = 0.0,
    limit: int = 100,
    timeout_s: float | None = None,
) -> Iterator[ImportRecord]:
    """Return the runs with these ids; without ids, the newest of the project that match."""
    from replaykit.formats.core.run_query import Status, parse_since  # noqa: PLC0415 (as above)
    from replaykit.intake.services.fetching import Query, fetch_by_id  # noqa: PLC0415

    began = None if since is None else parse_since(since)
    run_service = open_service(service, timeout_s)
    if run_ids:
        return fetch_by_id(run_service, run_ids, project, service)
    query = Query(project=project, status=Status(status), since=began, min_latency_ms=min_latency_ms, limit=limit)
    return run_service.runs(query)
