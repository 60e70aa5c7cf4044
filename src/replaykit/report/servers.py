"""Servers for programs: where an MCP server listens, and the lines that the receiver prints."""

# Annotations are values here: msgspec reads them.

from collections.abc import Sequence
from typing import TypeAlias, Union

from msgspec import Struct

from replaykit.intake.receiver.trace_processor import ReceiverTotals
from replaykit.model.run import RunStatus
from replaykit.report.layout import JsonResult


class McpListening(JsonResult, frozen=True, kw_only=True):
    """The place where an MCP server that speaks HTTP is reached while it is recorded or replayed."""

    name: str
    """The name of the server."""
    url: str
    """The URL to give to the client."""


class ViewerListening(JsonResult, frozen=True, kw_only=True):
    """The address of the viewer, with the token that lets the browser in."""

    url: str
    """The URL to open."""


class SharedFile(JsonResult, frozen=True, kw_only=True):
    """A file that shows a run, a case, a replay or a comparison."""

    file: str
    """The path of the file."""
    size_bytes: int


class ReceiverListening(Struct, frozen=True, kw_only=True, tag_field="event", tag="listening"):
    """The receiver takes traces from now on."""

    url: str
    """The OTLP endpoint to send to."""
    store: str
    """The store that runs are written to."""


class ReceivedRun(Struct, frozen=True, kw_only=True, tag_field="event", tag="run"):
    """A trace became a run, or a late span made its run anew."""

    run: str
    """The id of the run."""
    name: str
    status: RunStatus
    result: str
    """`imported`, `updated`, `unchanged` or `there`."""
    tool_calls: int
    notes: Sequence[str]
    """What the trace lacks."""


class ReceiverRefused(Struct, frozen=True, kw_only=True, tag_field="event", tag="refused"):
    """A request, or spans of one, were not taken; each reason is told once."""

    problem: str
    """Why they were not taken."""


class TraceProblem(Struct, frozen=True, kw_only=True, tag_field="event", tag="problem"):
    """A trace could not become a run."""

    trace: str
    """The id of the trace."""
    problem: str
    """Why it could not."""


class ReceiverEnded(ReceiverTotals, kw_only=True, tag_field="event", tag="ended"):
    """The receiver has ended: all that it received, and what became of it."""

    waiting: int
    """Traces that are not whole yet, and stay until the receiver is started again."""


ReceiverLine: TypeAlias = Union[  # noqa: UP007 (msgspec reads it)
    ReceiverListening, ReceivedRun, ReceiverRefused, TraceProblem, ReceiverEnded
]
"""One line of the receiver."""
