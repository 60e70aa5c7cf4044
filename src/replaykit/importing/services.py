"""The services that keep runs, by their names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from replaykit.errors import UsageError

if TYPE_CHECKING:
    from replaykit.importing.record import Record
    from replaykit.importing.service import Keeper

LANGSMITH, LANGFUSE, PHOENIX, MLFLOW = SERVICES = ("langsmith", "langfuse", "phoenix", "mlflow")


def keeper(service: str, timeout_s: float | None = None) -> Keeper:
    """The service, where the environment says it is; a `UsageError` says what is missing there."""
    # Each is slow to import, and a command asks one of them.
    from replaykit.importing.transport import DEFAULT_TIMEOUT_S  # noqa: PLC0415

    limit_s = DEFAULT_TIMEOUT_S if timeout_s is None else timeout_s
    if service == LANGFUSE:
        from replaykit.importing.langfuse import langfuse  # noqa: PLC0415

        return langfuse(limit_s)
    if service == PHOENIX:
        from replaykit.importing.phoenix import phoenix  # noqa: PLC0415

        return phoenix(limit_s)
    if service == MLFLOW:
        from replaykit.importing.mlflow import mlflow  # noqa: PLC0415

        return mlflow(limit_s)
    from replaykit.importing.langsmith import LangSmith  # noqa: PLC0415

    return LangSmith(timeout_s=limit_s)


def records_of(
    service: str,
    run_ids: Sequence[str] = (),
    project: str = "",
    *,
    status: str = "error",
    since: str | None = None,
    min_latency_ms: float = 0.0,
    limit: int = 100,
    timeout_s: float | None = None,
) -> Iterator[Record]:
    """What a service keeps under these ids; without one, the newest of the project that are wanted."""
    from replaykit.importers.langsmith_wanted import Status, since_of  # noqa: PLC0415 (as above)
    from replaykit.importing.service import Query, named  # noqa: PLC0415

    try:
        began = None if since is None else since_of(since, dt.datetime.now(dt.UTC))
    except ValueError as error:
        raise UsageError(f"--since: {error}", hint="Write --since 7d, --since 24h or --since 2026-02-15") from None
    keeps = keeper(service, timeout_s)
    if run_ids:
        return named(keeps, run_ids, project, service)
    query = Query(project=project, status=Status(status), since=began, min_latency_ms=min_latency_ms, limit=limit)
    return keeps.runs(query)
