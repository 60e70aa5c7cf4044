"""Pytest items for golden traces and cases."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from replaykit.candidates.agent_loader import load_agent
from replaykit.candidates.consent import consent_of
from replaykit.candidates.golden import GoldenResult, as_happened, replay_golden, write_accepted
from replaykit.candidates.replay import replay
from replaykit.candidates.worlds import with_consent
from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.config_files import find_project
from replaykit.cases.golden import read_golden
from replaykit.cases.requests import Flags, refusal_text, refused_in
from replaykit.config import HOME, make_home
from replaykit.documents.slug import slug
from replaykit.errors import Divergence, ReplayKitError, UsageError
from replaykit.export.forms import export_run
from replaykit.handlers.recording.agents import AGENTS
from replaykit.model.isolation import Consent
from replaykit.project.plugins import load_plugins, plugin_names
from replaykit.terminal import visible

_FLAGS = Flags("--replaykit-live", "--replaykit-allow-connect")
_UNFIT = re.compile(r"[^\w.@+=-]+")  # `::` in the name of a test would split it


class PytestAgent(NamedTuple):
    """An agent that somebody named."""

    label: str
    load: Callable[[], Callable[..., Any]]


def find_agent(config: pytest.Config, name: str, registered: Iterable[str]) -> PytestAgent:
    """The agent for the runs of that name, or the case of that id; a UsageError says which line to add."""
    named_agents, root = config.getoption("--replaykit-agent"), str(config.rootpath)
    if named_agents:
        return PytestAgent(named_agents, lambda: load_agent(named_agents, str(config.invocation_params.dir), root))
    table = _table(config.getini("replaykit_agents"))
    spec = table.get(name) or table.get("")
    if spec:
        return PytestAgent(spec, lambda: load_agent(spec, root))
    if name in registered:
        return PytestAgent(f"@record({name!r})", lambda: AGENTS.get(name))
    raise UsageError(
        f"no agent is known for {name!r}",
        hint=f"Add this line to `replaykit_agents` in pytest's configuration:  {name} = MODULE:FUNCTION",
    )


def consent_in(config: pytest.Config) -> Consent:
    """Return what the command line allows to be done for real."""
    return consent_of(*(config.getoption(f"--replaykit-{one}") for one in ("live", "allow-connect", "allow-write")))


def _table(lines: list[str]) -> dict[str, str]:
    """The agents by name; the one without a name is for all others."""
    table: dict[str, str] = {}
    for line in lines:
        name, _, spec = (part.strip() for part in line.rpartition("="))
        if name in table:
            raise UsageError(f"replaykit_agents names two agents for {f'{name!r}' if name else 'all'}")
        table[name] = spec
    return table


class _ReplayFile(pytest.File):
    """A file that is one test."""

    def __init__(self, *, registered: frozenset[str], **options: Any) -> None:
        super().__init__(**options)
        self.registered = registered

    def collect(self) -> Iterator[pytest.Item]:
        try:
            _load_plugins(self.config.rootpath)
            yield self.item()
        except ReplayKitError as error:
            if str(error).startswith(str(self.path)):
                where = ""
            else:
                where = f"{self.path}: "
            raise self.CollectError(_joined_lines(f"{where}{error}")) from None

    def item(self) -> pytest.Item:
        raise NotImplementedError


def _load_plugins(root: Path) -> None:
    """Import the plugins of the project: its tests are code that is run, as its conftest is."""
    file = find_project(root)
    names = None if file is None else plugin_names(file)
    if names is not None:
        load_plugins(names)


class GoldenFile(_ReplayFile):
    """`*.golden.json`."""

    def item(self) -> pytest.Item:
        golden = read_golden(self.path)  # read again when it runs: many files may be collected, and few run here
        agent = find_agent(self.config, golden.agent, self.registered)
        name = _UNFIT.sub("-", golden.name)[:80]
        return GoldenItem.from_parent(self, name=name, agent=agent)


class PytestCaseFile(_ReplayFile):
    """`case.yaml`."""

    def item(self) -> pytest.Item:
        case = load_case(self.path)
        agent = find_agent(self.config, case.id, self.registered)
        return CaseItem.from_parent(self, name=case.id, agent=agent, case=case)


class _ReplayItem(pytest.Item):
    """A test that runs an agent in a recorded world."""

    sort = ""

    def __init__(self, *, agent: PytestAgent, **options: Any) -> None:
        super().__init__(**options)
        self.agent = agent
        self.add_marker("replaykit")

    def setup(self) -> None:
        with _in_plain_words():
            self.function = self.agent.load()

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"{self.sort} {self.name}"

    def typed(self, path: Path) -> str:
        """The path as one would type it where pytest was started."""
        relative = os.path.relpath(path, self.config.invocation_params.dir)
        return shlex.quote(str(path) if relative.startswith("..") else relative)


class GoldenItem(_ReplayItem):
    """The agent does again what it did when it was recorded."""

    sort = "golden trace"

    def runtest(self) -> None:
        is_update = self.config.getoption("--replaykit-update")
        with _in_plain_words():
            consent = consent_in(self.config)
            # What a golden trace does not hold is a difference: a check does not call it.
            live = consent.live if is_update else ()
            result = replay_golden(read_golden(self.path), self.function, live=live, connect=consent.connect)
            if result.passed:
                return
            if is_update:
                self._accept(result)
                return
        raise _failure(result.text, *self._next(result))

    def _accept(self, result: GoldenResult) -> None:
        connect = self.config.getoption("--replaykit-allow-connect")
        try:
            again = write_accepted(self.path, result, self.function, allow_connect=connect)
        except Divergence as error:
            live = self._live(result)
            if live:
                lines = [f"Let it be called, and recorded:  {self._update}{live}"]
            else:
                lines = []
            raise _failure(f"not updated: {error}", *lines) from None
        summary = f"updated {self.typed(self.path)}"
        if not again.passed:
            summary += f", but when run again, {again.text.splitlines()[0]}"
        self.user_properties.append(("replaykit", summary))  # travels with the report, from a worker as well

    def _next(self, result: GoldenResult) -> Iterator[str]:
        yield f"Accept it:   {self._update}{self._live(result)}"
        evidence_path = self._keep(result)
        if evidence_path is not None:
            yield f"See it all:  replaykit compare {self.typed(self.path)} {self.typed(evidence_path)}"

    @property
    def _update(self) -> str:
        return f"pytest {self.typed(self.path)} --replaykit-update"

    def _live(self, result: GoldenResult) -> str:
        """The options without which nothing can be accepted: of tools whose calls were not recorded."""
        names = dict.fromkeys(str(call.name) for call in result.stopped if call.kind == "missing")
        return "".join(f" --replaykit-live {shlex.quote(name)}" for name in names)

    def _keep(self, result: GoldenResult) -> Path | None:
        """The run as it happened, in a file of its own; none where it cannot or may not be written."""
        name = slug("tool_call", os.path.relpath(self.path, self.config.rootpath))
        file = self.config.rootpath / HOME / "golden" / f"{name}.json"
        try:
            make_home(file.parent)
            file.write_bytes(export_run(as_happened(result), "run_log"))
        except (OSError, UsageError):
            return None
        return file


class CaseItem(_ReplayItem):
    """The failure of a case is gone, and everything desired holds."""

    sort = "case"

    def __init__(self, *, case: ReplayCase, **options: Any) -> None:
        super().__init__(**options)
        self.case = case

    def runtest(self) -> None:
        with _in_plain_words():
            subject = with_consent(self.case, consent_in(self.config))
            result = replay(subject, self.function)
        if refused := refused_in(subject):
            result = replace(result, reason=refusal_text(refused, _FLAGS))
        if result.passed:
            if not result.offline:
                self.user_properties.append(("replaykit", f"case {self.case.id} passed with live calls"))
            if result.unproven:
                self.user_properties.append(("replaykit", f"case {self.case.id} passed, but {result.unproven}"))
            return
        case, label = self.typed(self.case.directory), self.agent.label
        if label.startswith("@"):
            lines = []
        else:
            lines = [f"Look at it:  replaykit replay {case} --agent {label}"]
        if self.config.getoption("--replaykit-update"):
            lines.append("--replaykit-update is for golden traces: what a case desires, only a person can say.")
        raise _failure(result.text, *lines)


@contextmanager
def _in_plain_words() -> Iterator[None]:
    try:
        yield
    except ReplayKitError as error:
        raise _failure(str(error)) from None


def _failure(*lines: str) -> BaseException:
    """A failure that is told in these lines, and not by a traceback."""
    return pytest.fail.Exception(_joined_lines(*lines), pytrace=False)


def _joined_lines(*parts: str) -> str:
    return "\n".join(visible(line) for part in parts for line in part.splitlines())
