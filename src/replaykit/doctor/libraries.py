"""Check Python, SQLite, programs, SDKs and frameworks, and how ReplayKit reaches them.

The metadata of libraries is read; none of them is imported.
"""

from __future__ import annotations

import os
import platform
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib import metadata

from replaykit.doctor.results import DoctorItem, ItemState, item
from replaykit.errors import install_hint

OWN_NAME = "agent-replaykit"
FRAMEWORKS = {  # distribution: its extra, and what to add to an agent
    "agent-framework-core": ("agent-framework", "middleware=[ReplayKitMiddleware()]"),
    "claude-agent-sdk": ("claude-agent", "tools([…]), servers({…})"),
    "crewai": ("crewai", "tools=tools([…])"),
    "google-adk": ("google-adk", "plugins=[ReplayKitPlugin()]"),
    "langchain": ("langchain", "middleware=[ReplayKitMiddleware()]"),
    "langgraph": ("langgraph", "checkpointer=ReplayKitSaver(…)"),
    "llama-index-core": ("llama-index", "tools=tools([…])"),
    "openai-agents": ("openai-agents", "tools=tools([…])"),
    "pydantic-ai-slim": ("pydantic-ai", "capabilities=[ReplayKit()]"),
    "smolagents": ("smolagents", "tools=tools([…])"),
}
SDKS = {  # distribution: its HTTP libraries
    "anthropic": ("httpx",),
    "boto3": ("botocore",),
    "cohere": ("httpx",),
    "fastmcp": ("httpx", "httpx2"),
    "google-genai": ("httpx", "aiohttp"),
    "groq": ("httpx",),
    "litellm": ("httpx", "aiohttp"),
    "mcp": ("httpx", "httpx2"),
    "mistralai": ("httpx",),
    "ollama": ("httpx",),
    "openai": ("httpx", "httpx2", "aiohttp"),
}
HTTP_LIBRARIES = {  # distribution: the oldest version whose requests are recorded
    "aiohttp": "3.12.1",
    "botocore": "",
    "httpx": "",
    "httpx2": "",
    "requests": "",
    "urllib3": "2.0",
}
NOT_RECORDED = {  # distribution: its protocol, which is not recorded
    "grpcio": "gRPC",
    "pycurl": "libcurl",
    "websockets": "websockets",
}
_REQUIREMENT = re.compile(r"([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;\s*(.*))?")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_CLAUSE = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([0-9][0-9.]*)")


def examine_libraries() -> list[DoctorItem]:
    """Report the installed SDKs, frameworks and HTTP libraries."""
    own = Requirements.own()
    found = [*_dependencies(own), *_frameworks(own), *_sdks(), *_http_libraries(), *_not_recorded()]
    missing = sorted(name for name in (*FRAMEWORKS, *SDKS) if version_of(name) is None)
    if missing:
        detail = f"not installed, and not needed: {', '.join(missing)}"
        found.append(item("libraries", "others", ItemState.OK, detail))
    return found


def version_of(name: str) -> str | None:
    """Return the version of a distribution; None if it is not installed."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


class Requirements:
    """The versions that ReplayKit requires, of its dependencies and of supported frameworks."""

    def __init__(self, declared: Iterable[str]) -> None:
        self.needed: dict[str, str] = {}
        self.by_extra: dict[tuple[str, str], str] = {}
        for text in declared:
            name, versions, marker = _split(text)
            extra = _EXTRA.search(marker)
            if extra is not None:
                self.by_extra[extra[1], name] = versions
            elif not marker:
                self.needed[name] = versions

    @classmethod
    def own(cls) -> Requirements:
        """Return the requirements of the installed ReplayKit; empty if it runs uninstalled."""
        try:
            return cls(metadata.requires(OWN_NAME) or ())
        except metadata.PackageNotFoundError:
            return cls(())


def _split(text: str) -> tuple[str, str, str]:
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        return text, "", ""
    return found[1], found[2].strip("() "), found[3] or ""


def fits(version: str, required: str) -> bool:
    """Return whether a version is in a range such as `>=1.4,<2`, comparing numbers only."""
    return all(_holds(_numbers(version), sign, _numbers(bound)) for sign, bound in _CLAUSE.findall(required))


def _numbers(version: str) -> tuple[int, ...]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:  # 2.0 equals 2
        numbers.pop()
    return tuple(numbers)


def _holds(version: tuple[int, ...], sign: str, bound: tuple[int, ...]) -> bool:
    return {
        ">=": version >= bound,
        "<=": version <= bound,
        "==": version == bound,
        "!=": version != bound,
        "~=": version >= bound,
        ">": version > bound,
        "<": version < bound,
    }[sign]


def _dependencies(own: Requirements) -> Iterator[DoctorItem]:
    """Report ReplayKit's own dependencies, but only unsuitable ones."""
    for name, required in own.needed.items():
        version = version_of(name)
        if version is not None and fits(version, required):
            continue
        state = "is not installed" if version is None else f"is {version}"
        yield item(
            "libraries",
            name,
            ItemState.PROBLEM,
            f"ReplayKit needs {name}{required}, which {state}",
            f"pip install '{name}{required}'",
        )


def _frameworks(own: Requirements) -> Iterator[DoctorItem]:
    for name, (extra, addition) in FRAMEWORKS.items():
        version = version_of(name)
        if version is None:
            continue
        required = own.by_extra.get((extra, name), "")
        module = extra.replace("-", "_")
        if fits(version, required):
            detail = f"{version}: recorded by replaykit.integrations.{module}, {addition}"
            yield item("libraries", name, ItemState.OK, detail)
        else:
            yield item(
                "libraries",
                name,
                ItemState.NOTE,
                f"{version}: the adapter is made for {required}; its model calls are still recorded",
                install_hint(extra),
            )


def _sdks() -> Iterator[DoctorItem]:
    for name, libraries in SDKS.items():
        version = version_of(name)
        if version is None:
            continue
        through = [library for library in libraries if version_of(library) is not None]
        if through:
            detail = f"{version}: recorded, through {', '.join(through)}"
            yield item("libraries", name, ItemState.OK, detail)
        else:
            detail = f"{version}: none of {', '.join(libraries)} is installed, so its requests may not be recorded"
            yield item("libraries", name, ItemState.NOTE, detail)


def _http_libraries() -> Iterator[DoctorItem]:
    for name, oldest in HTTP_LIBRARIES.items():
        version = version_of(name)
        if version is None:
            continue
        if fits(version, f">={oldest}" if oldest else ""):
            yield item("libraries", name, ItemState.OK, f"{version}: recorded")
        else:
            yield item(
                "libraries",
                name,
                ItemState.NOTE,
                f"{version}: requests are recorded from {oldest} on",
                f"pip install '{name}>={oldest}'",
            )


def _not_recorded() -> Iterator[DoctorItem]:
    """Report all of them in one line, because most are only dependencies of something else."""
    versions = {name: version_of(name) for name in NOT_RECORDED}
    installed = [
        f"{name} {version} ({NOT_RECORDED[name]})" for name, version in versions.items() if version is not None
    ]
    if installed:
        yield item(
            "libraries",
            "not recorded",
            ItemState.NOTE,
            f"{', '.join(installed)}: what your agent does with these is not recorded, and a replay stops it",
            "If it uses one of them, wrap that code in a tool: @rk.tool",
        )


_MAX_WAIT_S = 2.0
_TESTED = "Programming Language :: Python :: "
_PROGRAMS = {  # name: the message if it is missing
    "git": "git is not found: whether the store stays out of git cannot be checked",
    "node": "node is not found: only needed to record or replay agents in JavaScript",
}


def examine_machine() -> Iterator[DoctorItem]:
    """Check Python, the system and the programs."""
    yield _python()
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    yield item("machine", "platform", ItemState.OK, system)
    yield item("machine", "sqlite", ItemState.OK, sqlite3.sqlite_version)
    for name, absence in _PROGRAMS.items():
        yield _program(name, absence)


def _python() -> DoctorItem:
    version = platform.python_version()
    detail = f"{version} ({platform.python_implementation()}), {sys.executable}"
    tested = _tested_versions()
    if not tested or f"{sys.version_info.major}.{sys.version_info.minor}" in tested:
        return item("machine", "python", ItemState.OK, detail)
    advice = f"Use one of {', '.join(tested)}."
    detail += ": ReplayKit is not tested with this version"
    return item("machine", "python", ItemState.NOTE, detail, advice)


def _tested_versions() -> list[str]:
    """Return the Python versions in ReplayKit's classifiers; empty if it runs uninstalled."""
    try:
        named = metadata.metadata(OWN_NAME).get_all("Classifier") or []
    except metadata.PackageNotFoundError:
        return []
    versions = [text.removeprefix(_TESTED) for text in named if text.startswith(_TESTED)]
    return [version for version in versions if "." in version]


def _program(name: str, absence: str) -> DoctorItem:
    path = shutil.which(name)
    if path is None:
        return item("machine", name, ItemState.NOTE, absence)
    try:
        done = subprocess.run(
            [path, "--version"], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_MAX_WAIT_S
        )
    except (OSError, subprocess.TimeoutExpired, UnicodeDecodeError) as error:
        detail = f"{path} does not report its version: {type(error).__name__}"
        return item("machine", name, ItemState.NOTE, detail)
    if done.returncode != 0:
        detail = f"{path} does not report its version: exit code {done.returncode}"
        return item("machine", name, ItemState.NOTE, detail)
    version = done.stdout.strip().split(os.linesep)[0].removeprefix("git version ")
    return item("machine", name, ItemState.OK, f"{version}, {path}")
