"""Live requests of a case: what it asks to do for real, and which of that the user has not allowed.

Cases, sessions and golden traces are untrusted data. They can ask for live calls and connections; the user decides, by
name, whether they happen. See `replaykit.model.isolation`.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from msgspec import Struct

from replaykit.cases.case import EVERY_TOOL, ReplayCase, Scenario
from replaykit.cases.case_shape import ModelMode
from replaykit.model.isolation import ANYTHING, MODELS, Consent
from replaykit.model.json_positions import DocumentPath
from replaykit.model.matching import OnMiss, ToolMode
from replaykit.model.result import Deviation
from replaykit.terminal import visible

REFUSED = "refused"
"""The deviation for a request that was not allowed."""
_ANY_HOST = "*"
_SHOWN = 5  # requests in a message; a case may contain any number


class Flags(Struct, frozen=True):
    """The names of the options of the command that runs the case."""

    live: str = "--live"
    connect: str = "--allow-connect"


COMMAND_LINE = Flags()


class Request(Struct, frozen=True, kw_only=True):
    """A live call or connection that a case asks for."""

    name: str
    """A tool, model or request; `models` for every model, `*` for anything. For a connection, the host."""
    is_connection: bool = False
    path: DocumentPath
    """Its place in the case."""

    @property
    def text(self) -> str:
        """The request in words, as in "the case asks to …"."""
        shown = f"`{visible(self.name)}`"
        if self.is_connection:
            if self.is_any_host:
                return "connect to any host"
            return f"connect to {shown}"
        names = {ANYTHING: "anything", MODELS: "its models"}
        return f"call {names.get(self.name, shown)} for real"

    @property
    def is_any_host(self) -> bool:
        """True for a connection to any host."""
        return self.is_connection and self.name.partition(":")[0] == _ANY_HOST

    def flag(self, flags: Flags = COMMAND_LINE) -> str:
        """Return the option that allows it; a missing host or port is written as HOST or PORT."""
        if not self.is_connection:
            return f"{flags.live} {shlex.quote(visible(self.name))}"
        if self.is_any_host:
            return f"{flags.connect} HOST:PORT"
        has_port = self.name.startswith("/") or self.name.rpartition(":")[2].isdigit()
        place = visible(self.name)
        return f"{flags.connect} {shlex.quote(place if has_port else f'{place}:PORT')}"

    def is_covered_by(self, consent: Consent) -> bool:
        """True if the user has allowed it by name. A host without a port needs one allowed port."""
        if consent.everything:
            return True
        if not self.is_connection:
            return consent.covers(self.name)
        return not self.is_any_host and any(self.name.lower() in _spellings(place) for place in consent.connect)


def requests_of(scenario: Scenario) -> tuple[Request, ...]:
    """Return all live requests of a scenario, allowed or not."""
    return tuple(_requests(scenario))


def _requests(scenario: Scenario) -> Iterator[Request]:
    for tool, mode in scenario.tools:
        if mode is ToolMode.LIVE:
            is_alone = tool == EVERY_TOOL and len(scenario.tools) == 1
            yield Request(name=tool, path=("scenario", "tools") if is_alone else ("scenario", "tools", tool))
    if scenario.models is ModelMode.LIVE:
        yield Request(name=MODELS, path=("scenario", "models"))
    match = scenario.match
    if match.on_miss is OnMiss.LIVE:
        for index, name in enumerate(match.live):
            yield Request(name=name, path=("scenario", "match", "live", index))
    for index, host in enumerate(match.network):
        yield Request(name=host, is_connection=True, path=("scenario", "match", "network", index))


def refused_in(case: ReplayCase) -> tuple[Request, ...]:
    """Return the requests that the user has not allowed."""
    scenario = case.scenario
    return tuple(request for request in requests_of(scenario) if not request.is_covered_by(scenario.consent))


def refusal_text(refused: Sequence[Request], flags: Flags = COMMAND_LINE) -> str:
    """Explain what a case asks for that was not allowed, and how to allow it."""
    wishes = list(dict.fromkeys(request.text for request in refused))
    options = list(dict.fromkeys(request.flag(flags) for request in refused))
    if len(wishes) > _SHOWN:
        wishes = [*wishes[:_SHOWN], f"{len(wishes) - _SHOWN} more things"]
        options = [*options[:_SHOWN], "…"]
    listed = " and ".join(filter(None, (", ".join(wishes[:-1]), wishes[-1])))
    lines = [f"the case asks to {listed}, which was not allowed"]
    if any(request.is_any_host for request in refused):
        lines.append("Hosts are allowed by name: name each of them in the case's `match.network`")
    lines.append(f"To allow it: {' '.join(options)}")
    return "\n".join(lines)


def refusals(refused: Sequence[Request]) -> tuple[Deviation, ...]:
    """Return the refused requests as deviations."""
    return tuple(Deviation(kind=REFUSED, name=request.name, text=refusal_text([request])) for request in refused)


def _spellings(place: str) -> frozenset[str]:
    """Return the spellings of an allowed address, with and without its port."""
    from replaykit.isolation.policy import Address  # noqa: PLC0415 (few cases ask for a connection)

    address = Address.parse(place)
    if not address.port:
        return frozenset({place.lower()})
    host = address.host.lower()
    return frozenset({host, f"[{host}]", f"{host}:{address.port}", f"[{host}]:{address.port}"})
