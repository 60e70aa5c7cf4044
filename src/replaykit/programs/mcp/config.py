"""MCP configuration files, rewritten so that every server is behind the shim or the proxy.

    {"mcpServers": {…}}    .mcp.json, Claude, Cursor, Windsurf, Gemini and most others
    {"servers": {…}}       mcp.json of VS Code; in its settings below "mcp"

A server with a `command` gets the shim in front of it; the address of one with a URL becomes the proxy's. Everything
else stays, and the original file is never touched. A replay starts no server, so what a server needs to start, and its
credentials, are left out. `McpConfigs` does this for a whole program.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

import orjson
from msgspec import Struct

from replaykit.errors import InvalidFile, UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.run import TraceRun
from replaykit.model.values import Json, JsonObject
from replaykit.programs.file_swap import restore_swapped_file, to_stderr
from replaykit.programs.launch_options import Endpoint, LaunchExtension, SendRequest
from replaykit.programs.mcp.shim_session import CONFIGS, asks_servers, client_calls_only, shim_name
from replaykit.programs.plan import Mode, ProgramPlan
from replaykit.programs.process_log import ProcessLog, is_mcp_event
from replaykit.programs.process_startup import ALONE
from replaykit.programs.proxy_addresses import base_address

_SERVER_MAPS = ("mcpServers", "servers", "context_servers")
_URLS = ("url", "serverUrl", "httpUrl")
_LIVE_ONLY_KEYS = ("env", "envFile", "environment", "cwd", "headers", "headersHelper", "requestInit", "oauth", "auth")
_VARIABLE = re.compile(r"\$\{(?:env:)?(\w+)(?::-([^}]*))?\}")
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_TRAILING = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_BOM = "\ufeff"
_UNKNOWN = "http://unknown/mcp"
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9._-]")  # clients leave these characters unescaped in a path


class HttpServer(Struct, frozen=True, kw_only=True):
    """A server behind the proxy."""

    upstream: str
    """Its name in the paths of the proxy."""
    name: str
    """Its name in the configuration, which prefixes its tools."""
    address: str
    """Scheme, host and port behind the proxy, without secrets; the path stays the same."""
    path: str = ""
    """The path of its MCP endpoint."""


class RewrittenConfig(Struct, frozen=True, kw_only=True):
    """A configuration file for the recorded or replayed program."""

    file: Path
    """The path it was written to."""
    stdio: tuple[str, ...] = ()
    """The names of the servers behind the shim."""
    http: tuple[HttpServer, ...] = ()
    unrewritten: tuple[str, ...] = ()
    """Servers with unknown addresses, which are left unchanged and not recorded."""


def rewrite_config(
    file: Path, session: Path, *, mode: Mode, proxy: str, known: Iterable[HttpServer] = ()
) -> RewrittenConfig:
    """Write a configuration for the program instead of this one, below the session's directory.

    `proxy` is its address, such as `http://127.0.0.1:40123`; the caller adds the servers in `http` to its upstreams.
    `known` are servers that it already has.
    """
    config = checked_config(file) if mode is Mode.RECORD else read_config(file)  # a replay may have lost its servers
    servers = _ConfigRewriter(session, mode, proxy, known)
    for group in _groups(config):
        servers.rewrite(group)
    place = session / "mcp" / hashlib.sha256(os.fsencode(file.absolute())).hexdigest()[:8]
    place.mkdir(parents=True, exist_ok=True, mode=0o700)
    target = place / file.name
    target.unlink(missing_ok=True)
    with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:  # it may hold secrets
        out.write(orjson.dumps(config, option=orjson.OPT_INDENT_2) + b"\n")
    return RewrittenConfig(
        file=target, stdio=tuple(servers.stdio), http=tuple(servers.http), unrewritten=tuple(servers.unrewritten)
    )


def checked_config(file: Path) -> JsonObject:
    """Return the configuration in a file; raise `InvalidFile` if it contains no server."""
    config = read_config(file)
    for group in _groups(config):
        for entry in group.values():
            if _has_command(entry) or _url_key(entry):
                return config
    raise InvalidFile(f"no MCP server is in it, under {', '.join(map(repr, _SERVER_MAPS))}", file=str(file))


def read_config(file: Path) -> JsonObject:
    """Return the JSON object in a file, ignoring comments and trailing commas."""
    try:
        text = file.read_text(encoding="utf-8").removeprefix(_BOM)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidFile(f"cannot be read: {reason}", file=str(file)) from None
    try:
        config = orjson.loads(_TRAILING.sub(_blank_out, _COMMENT.sub(_blank_out, text)))
    except orjson.JSONDecodeError as error:
        raise InvalidFile(f"not JSON: {error.msg}", file=str(file), line=error.lineno) from None
    if not isinstance(config, dict):
        raise InvalidFile("expected a JSON object", file=str(file))
    return config


class _ConfigRewriter:
    """Rewrites the servers of one configuration."""

    def __init__(self, session: Path, mode: Mode, proxy: str, known: Iterable[HttpServer]) -> None:
        self._session = session.absolute()
        self._mode = mode
        self._proxy = proxy
        self._known = list(known)
        self.stdio: list[str] = []
        self.http: list[HttpServer] = []
        self.unrewritten: list[str] = []

    def rewrite(self, group: JsonObject) -> None:
        """Replace each server in a map."""
        for name, entry in group.items():
            if _has_command(entry):
                group[name] = self._with_shim(name, entry)
            elif key := _url_key(entry):
                group[name] = self._through_proxy(name, entry, key)

    def _with_shim(self, name: str, entry: JsonObject) -> JsonObject:
        self.stdio.append(name)
        command, arguments = entry["command"], entry.get("args")
        words = command if isinstance(command, list) else [command]
        if not isinstance(command, list) and isinstance(arguments, list):
            words += arguments
        if self._mode is Mode.REPLAY:
            words = words[:1]
        # -P: a file in the server's working directory must not shadow a module.
        shim = ["-P", "-m", "replaykit", "mcp", f"--name={name}", f"--session={self._session}", "--", *words]
        rewritten = dict(self._without_live_keys(entry))
        if isinstance(command, list):
            rewritten["command"] = [sys.executable, *shim]
        else:
            rewritten |= {"command": sys.executable, "args": shim}
        member = "environment" if isinstance(entry.get("environment"), dict) else "env"
        variables = rewritten.get(member)
        if not isinstance(variables, dict):
            variables = {}
        rewritten[member] = {**variables, ALONE: "1"}
        return rewritten

    def _through_proxy(self, name: str, entry: JsonObject, key: str) -> JsonObject:
        url = _address(entry[key])
        if url is None and self._mode is Mode.RECORD:
            self.unrewritten.append(name)
            return entry
        url = url or urlsplit(_UNKNOWN)  # a replay finds the recorded server by name alone
        user, at, host = url.netloc.rpartition("@")
        server = self._server(name, f"{url.scheme}://{host}", url.path)
        place, rest = self._proxy, url.path
        if self._mode is Mode.RECORD:  # credentials and query are passed on unchanged
            place = place.replace("://", f"://{user}{at}", 1)
            rest += f"?{url.query}" if url.query else ""
        return {**self._without_live_keys(entry), key: f"{place}/{server.upstream}{rest}"}

    def _server(self, name: str, address: str, path: str) -> HttpServer:
        """Return the server at that place: a known one, or else a new one."""
        before = [*self._known, *self.http]
        for server in before:
            if (server.name, server.address, server.path) == (name, address, path):
                break
        else:
            upstream = plain = _NOT_PLAIN.sub("_", shim_name(name))
            used = {server.upstream for server in before}
            number = 2
            while upstream in used:
                upstream = f"{plain}-{number}"
                number += 1
            server = HttpServer(upstream=upstream, name=name, address=address, path=path)
        if server not in self.http:
            self.http.append(server)
        return server

    def _without_live_keys(self, entry: JsonObject) -> JsonObject:
        if self._mode is Mode.RECORD:
            return entry
        return {key: value for key, value in entry.items() if key not in _LIVE_ONLY_KEYS}


def _groups(config: JsonObject) -> Iterator[JsonObject]:
    """Yield every map of servers in a configuration, including those of single projects."""
    places: list[Json] = [config, config.get("mcp")]
    if isinstance(projects := config.get("projects"), dict):
        places += projects.values()
    for place in places:
        for key in _SERVER_MAPS:
            if isinstance(place, dict) and isinstance(place.get(key), dict):
                yield place[key]


def _has_command(entry: Json) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("command"), str | list) and bool(entry["command"])


def _url_key(entry: Json) -> str:
    """Return the key that holds a server's URL; empty if there is none."""
    for key in _URLS:
        if isinstance(entry, dict) and isinstance(entry.get(key), str):
            return key
    return ""


def _address(text: str) -> SplitResult | None:
    """Return the parsed URL; None if its address is unknown."""
    # Environment variables are expanded as the program would do it.
    resolved = _VARIABLE.sub(lambda match: os.environ.get(match[1]) or match[2] or match[0], text)
    try:
        url = urlsplit(resolved)
        _ = url.port
    except ValueError:
        return None
    is_known = url.scheme in ("http", "https") and url.hostname and "${" not in url.netloc
    return url if is_known else None


def _blank_out(match: re.Match[str]) -> str:
    """Keep strings; of anything else keep only the line ends, so that errors name the right line."""
    if match[0].startswith('"'):
        return match[0]
    return "\n" * match[0].count("\n") or " "


FACT = "mcp"
"""The key of these facts in a run's header."""


class McpConfigs(Struct, frozen=True, kw_only=True):
    """A program's MCP configuration files; calling it makes the launch extension for their servers."""

    files: tuple[Path, ...]
    in_place: bool = False
    """True if the program reads the files in their places."""
    warn: Callable[[str], None] = to_stderr

    @property
    def facts(self) -> JsonObject:
        """The facts that a recording notes, so that a replay finds the files again."""
        facts: JsonObject = {"configs": self._local_paths()}
        if elsewhere := len(self.files) - len(facts["configs"]):
            facts["elsewhere"] = elsewhere
        return {FACT: {**facts, "in_place": self.in_place}}

    @property
    def options(self) -> tuple[str, ...]:
        """The command-line options that a replay needs in addition to the recording."""
        named = tuple(word for file in self.files for word in ("--mcp-config", str(file)))
        if self.in_place:
            return (*named, "--mcp-config-in-place")
        if len(self._local_paths()) == len(self.files):
            return ()
        return named

    def _local_paths(self) -> list[str]:
        """Return the files below the working directory, as relative paths."""
        directory = os.path.realpath(os.curdir)
        paths = []
        for file in self.files:
            path = os.path.relpath(os.path.join(os.path.realpath(file.parent), file.name), directory)
            if not path.startswith(os.pardir):
                paths.append(Path(path).as_posix())
        return paths

    @staticmethod
    def were_asked(run: TraceRun) -> bool:
        """True if any server was used."""
        return any(map(is_mcp_event, run.events))

    def __call__(self, plan: ProgramPlan, world: World | None, directory: Path) -> LaunchExtension:
        """Write the files for the program."""
        rewritten = self._rewritten(plan, directory, Mode.RECORD if asks_servers(plan, world) else Mode.REPLAY)
        by_upstream: dict[str, HttpServer] = {}
        for config in rewritten.values():
            by_upstream |= {server.upstream: server for server in config.http}
        http = list(by_upstream.values())
        if http and not plan.proxy:
            names = ", ".join(repr(server.name) for server in http)
            raise UsageError(
                f"these MCP servers speak HTTP, and only the proxy can record them: {names}",
                hint="Leave out --no-proxy.",
            )

        def endpoints(process_log: ProcessLog, ask: SendRequest) -> Mapping[str, Endpoint]:
            from replaykit.programs.mcp.http_shim import proxied_servers  # noqa: PLC0415 (needs aiohttp)

            return proxied_servers(http, process_log, plan, world, ask)

        return LaunchExtension(
            files={file: config.file for file, config in rewritten.items()},
            in_place=self.in_place,
            variables={CONFIGS: os.pathsep.join(str(config.file) for config in rewritten.values())},
            upstreams={server.upstream: server.address for server in http},
            endpoints=endpoints if http else None,
            world=None if world is None else client_calls_only(world, {server.name for server in http}),
        )

    def _rewritten(self, plan: ProgramPlan, directory: Path, mode: Mode) -> dict[Path, RewrittenConfig]:
        # The names of other upstreams are taken.
        known = [HttpServer(upstream=name, name="", address="") for name in plan.upstreams]
        rewritten: dict[Path, RewrittenConfig] = {}
        for file in self.files:
            restore_swapped_file(file, self.warn)
            result = rewrite_config(file, directory, mode=mode, proxy=base_address(plan.proxy, plan.token), known=known)
            known += result.http
            rewritten[file] = result
            for name in result.unrewritten:
                self.warn(f"{file}: where {name!r} is cannot be told from its URL; it is not recorded")
        return rewritten
