"""Requests of a case: what it asks to be done for real, and what of that nobody has allowed.

A case, a session or a golden trace is data, and may come from a stranger: it can ask for live calls and connections.
Whether they happen, the person who runs it decides, by name; see `replaykit.model.isolation`.
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
"""The deviation for something that a case asks for and nobody has allowed."""
_ANY_HOST = "*"
_SHOWN = 5  # requests in a text; data may ask for any number


class Flags(Struct, frozen=True):
    """The spelling of the options where the case is run."""

    live: str = "--live"
    connect: str = "--allow-connect"


COMMAND_LINE = Flags()


class Request(Struct, frozen=True, kw_only=True):
    """One thing that a case asks to be done for real."""

    name: str
    """A tool, a model or a request; `models` for every model, `*` for anything. Of a connection the host."""
    is_connection: bool = False
    path: DocumentPath
    """The place in the case that says so."""

    @property
    def text(self) -> str:
        """The request in words, to follow "the case asks to"."""
        shown = f"`{visible(self.name)}`"
        if self.is_connection:
            if self.is_any_host:
                return "connect to any host"
            return f"connect to {shown}"
        names = {ANYTHING: "anything", MODELS: "its models"}
        return f"call {names.get(self.name, shown)} for real"

    @property
    def is_any_host(self) -> bool:
        """True for a connection to hosts that nobody has named."""
        return self.is_connection and self.name.partition(":")[0] == _ANY_HOST

    def flag(self, flags: Flags = COMMAND_LINE) -> str:
        """The option that allows it; for hosts without a name or a port, with a word in their place."""
        if not self.is_connection:
            return f"{flags.live} {shlex.quote(visible(self.name))}"
        if self.is_any_host:
            return f"{flags.connect} HOST:PORT"
        has_port = self.name.startswith("/") or self.name.rpartition(":")[2].isdigit()
        place = visible(self.name)
        return f"{flags.connect} {shlex.quote(place if has_port else f'{place}:PORT')}"

    def is_covered_by(self, consent: Consent) -> bool:
        """True when the person has allowed it by name. A host without a port is, when one of its ports is."""
        if consent.everything:
            return True
        if not self.is_connection:
            return consent.covers(self.name)
        return not self.is_any_host and any(self.name.lower() in _spellings(place) for place in consent.connect)


def requests_of(scenario: Scenario) -> tuple[Request, ...]:
    """Everything that a scenario asks to be done for real, whoever may have allowed it."""
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
    """Return what the case asks for and the person who runs it has not allowed; nothing of it may be done."""
    scenario = case.scenario
    return tuple(request for request in requests_of(scenario) if not request.is_covered_by(scenario.consent))


def refusal_text(refused: Sequence[Request], flags: Flags = COMMAND_LINE) -> str:
    """Say what a case asks for that was not allowed, and what to type to allow it."""
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
    """The refused requests, one by one, for a result."""
    return tuple(Deviation(kind=REFUSED, name=request.name, text=refusal_text([request])) for request in refused)


def _spellings(place: str) -> frozenset[str]:
    """The ways to write an address that was allowed: with its port, and without."""
    from replaykit.isolation.policy import Address  # noqa: PLC0415 (few cases ask for a connection)

    address = Address.parse(place)
    if not address.port:
        return frozenset({place.lower()})
    host = address.host.lower()
    return frozenset({host, f"[{host}]", f"{host}:{address.port}", f"[{host}]:{address.port}"})
