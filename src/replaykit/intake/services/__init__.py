"""The services that keep runs, by their names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replaykit.errors import UsageError

if TYPE_CHECKING:
    from replaykit.intake.entries import ImportRecord
    from replaykit.intake.services.fetching import RunService

LANGSMITH, LANGFUSE, PHOENIX, MLFLOW = SERVICES = ("langsmith", "langfuse", "phoenix", "mlflow")


def open_service(service: str, timeout_s: float | None = None) -> RunService:
    """The service, where the environment says it is; a `UsageError` says what is missing there."""
    # Each is slow to import, and a command asks one of them.
    from replaykit.intake.services.transport import DEFAULT_TIMEOUT_S  # noqa: PLC0415

    if timeout_s is None:
        limit_s = DEFAULT_TIMEOUT_S
    else:
        limit_s = timeout_s
    if service == LANGFUSE:
        from replaykit.intake.services.langfuse import langfuse  # noqa: PLC0415

        return langfuse(limit_s)
    if service == PHOENIX:
        from replaykit.intake.services.phoenix import phoenix  # noqa: PLC0415

        return phoenix(limit_s)
    if service == MLFLOW:
        from replaykit.intake.services.mlflow import mlflow  # noqa: PLC0415

        return mlflow(limit_s)
    from replaykit.intake.services.langsmith import LangSmith  # noqa: PLC0415

    return LangSmith(timeout_s=limit_s)


def fetch_records(
    service: str,
    run_ids: Sequence[str] = (),
    project: str = "",
    *,
    status: str = "error",
    since: str | None = None,
    min_latency_ms: float = 0.0,
    limit: int = 100,
    timeout_s: float | None = None,
) -> Iterator[ImportRecord]:
    """Return the runs with these ids; without ids, the newest of the project that match."""
    from replaykit.formats.core.run_query import Status, since_of  # noqa: PLC0415 (as above)
    from replaykit.intake.services.fetching import Query, fetch_by_id  # noqa: PLC0415

    try:
        if since is None:
            began = None
        else:
            began = since_of(since, dt.datetime.now(dt.UTC))
    except ValueError as error:
        raise UsageError(f"--since: {error}", hint="Write --since 7d, --since 24h or --since 2026-02-15") from None
    keeps = open_service(service, timeout_s)
    if run_ids:
        return fetch_by_id(keeps, run_ids, project, service)
    query = Query(project=project, status=Status(status), since=began, min_latency_ms=min_latency_ms, limit=limit)
    return keeps.runs(query)
