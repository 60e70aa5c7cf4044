"""The pytest plugin: golden traces and cases are tests.

Every pytest run of whoever has ReplayKit installed loads this module: it imports nothing of ReplayKit until there is a
file to collect and an agent to run it with. Which agent that is, a person says: on the command line, in pytest's
configuration, or by a conftest that imports it. Never a file.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

_CONSENT = ("--replaykit-live", "--replaykit-allow-connect", "--replaykit-allow-write")
GOLDEN, CASE, OTHER = "golden trace", "case", "other"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("replaykit", "golden traces and cases (replaykit)")
    group.addoption(
        "--replaykit-agent",
        metavar="MODULE:FUNCTION",
        help="The agent that golden traces and cases are run with, instead of those in `replaykit_agents`.",
    )
    group.addoption(
        "--replaykit-update",
        action="store_true",
        help="Accept what the agent does: rewrite the golden traces that fail. Refused where CI is set.",
    )
    group.addoption(
        "--replaykit-live",
        action="append",
        default=[],
        metavar="NAME",
        help="This tool, model or request may be called for real where a case does not hold it, or asks for that; of "
        "golden traces only with --replaykit-update. Repeatable.",
    )
    group.addoption(
        "--replaykit-allow-connect",
        action="append",
        default=[],
        metavar="HOST:PORT",
        help="Agents may reach this address. Repeatable.",
    )
    group.addoption(
        "--replaykit-allow-write",
        action="append",
        default=[],
        metavar="DIR",
        help="Agents may really write files in this directory. Repeatable.",
    )
    parser.addini(
        "replaykit_agents",
        "The agents that golden traces and cases are run with: `name = module:function` for the runs of that name or "
        "the case of that id, a bare `module:function` for all others.",
        type="linelist",
        default=[],
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "replaykit: a golden trace or a case that is replayed")
    update = config.getoption("--replaykit-update")
    if update and os.environ.get("CI", "").lower() not in ("", "0", "false"):
        raise pytest.UsageError(
            "--replaykit-update is refused where CI is set: accept a new truth where you can see it"
        )
    if any(map(config.getoption, _CONSENT)):
        _check_consent(config)
    config.pluginmanager.register(_Files(config), "replaykit-files")


def _check_consent(config: pytest.Config) -> None:
    """Stop where pytest's configuration, which comes with a pull request, allows something to be done for real, and
    where something is allowed that means nothing."""
    if hasattr(config, "workerinput"):
        return  # of pytest-xdist: whoever has started it has looked
    from replaykit.candidates.consent import consent_of  # noqa: PLC0415
    from replaykit.errors import ReplayKitError  # noqa: PLC0415 (few runs allow anything)

    typed = list(map(str, config.invocation_params.args))
    for option in _CONSENT:
        count = sum(word == option or word.startswith(f"{option}=") for word in typed)
        if len(config.getoption(option)) > count:
            raise pytest.UsageError(
                f"{option} must be typed in full on the command line: "
                "a configuration file or a variable cannot allow real effects"
            )
    try:
        consent_of(*map(config.getoption, _CONSENT))
    except ReplayKitError as error:
        raise pytest.UsageError(str(error)) from None


class _Files:
    """Collects the files, and says at the end what became of them."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._configured = bool(config.getoption("--replaykit-agent") or config.getini("replaykit_agents"))
        self._from_tests: set[str] = set()
        self._passed_by: dict[str, str] = {}  # files → what they are

    def pytest_collect_file(self, file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
        if file_path.name == "case.yaml":
            kind = CASE
        elif file_path.name.endswith(".golden.json"):
            kind = GOLDEN
        else:
            kind = None
        if kind is None:
            return None
        known = self._configured or bool(self._registered())
        if kind is CASE and not _speaks_of_us(file_path):
            if known:
                self._passed_by[str(file_path)] = OTHER
            return None
        if not known:
            self._passed_by[str(file_path)] = kind
            return None
        from replaykit.pytest_items import GoldenFile, PytestCaseFile  # noqa: PLC0415 (only who has such files pays for it)

        node: type[PytestCaseFile | GoldenFile] = PytestCaseFile if kind is CASE else GoldenFile
        return node.from_parent(parent, path=file_path, registered=self._registered())

    @pytest.hookimpl(hookwrapper=True)
    def pytest_make_collect_report(self, collector: pytest.Collector) -> Generator[None, Any, None]:
        """An agent that a test module brings along counts for that module: else the order of files would decide."""
        before = _in_registry()
        yield
        if isinstance(collector, pytest.File):
            self._from_tests |= _in_registry() - before

    def pytest_sessionfinish(self) -> None:
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output["replaykit_passed_by"] = self._passed_by

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A worker of pytest-xdist has ended: the files that it saw are no longer known to anybody else."""
        self._passed_by.update(getattr(node, "workeroutput", {}).get("replaykit_passed_by", {}))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        for text in _summary_lines(terminalreporter):
            terminalreporter.write_line(f"replaykit: {text}")
        found = [*self._passed_by.values()]
        for file in [file for file, kind in self._passed_by.items() if kind == OTHER][:3]:
            place = os.path.relpath(file, self._config.rootpath)
            terminalreporter.write_line(f"replaykit: {place} is not a case: it has no key `replaykit`")
        counts = [(kind, found.count(kind)) for kind in (GOLDEN, CASE)]
        files = " and ".join(f"{count} {kind}{'s' if count > 1 else ''}" for kind, count in counts if count)
        if files:
            terminalreporter.write_line(
                f"replaykit: {files} not run, for no agent is known: "
                "add `replaykit_agents = MODULE:FUNCTION` to pytest's configuration"
            )

    def _registered(self) -> frozenset[str]:
        return frozenset(_in_registry() - self._from_tests)


def _in_registry() -> set[str]:
    """The names of the agents that are decorated with `@record`, if anybody has imported ReplayKit at all."""
    module = sys.modules.get("replaykit.handlers.recording.agents")
    if module is None:
        return set()
    try:
        return set(module.AGENTS)
    except module.UsageError as error:  # a package that offers an agent cannot be loaded
        raise pytest.UsageError(str(error)) from None


def _speaks_of_us(file: Path) -> bool:
    """Others have files of this name too."""
    try:
        return b"replaykit" in file.read_bytes()
    except OSError:
        return True  # reading it says why not


def _summary_lines(terminalreporter: Any) -> Iterator[str]:
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") == "call":
                yield from (text for name, text in report.user_properties if name == "replaykit")
