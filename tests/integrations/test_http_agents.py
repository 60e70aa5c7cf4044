"""Agents behind real frameworks and servers: the incident is replayed there, in threads, streams and several processes.

The real tools leave a mark in a file, and fail: what is answered comes from the tape.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.incident import CONTRACT, INCIDENT

import replaykit as rk
from replaykit.candidates.agents import candidate_of
from replaykit.middleware.messages import TAPE_PATH
from replaykit.project.case_selection import select_cases

HERE = Path(__file__).parent / "served"
UVICORN = ("-m", "uvicorn", "fastapi_agent:app", "--log-level", "warning", "--fd", "{fd}")
GUNICORN = ("-m", "gunicorn", "flask_agent:app", "--log-level", "warning", "--no-control-socket", "--bind", "fd://{fd}")
SERVERS = {
    "uvicorn": UVICORN,
    "uvicorn-workers": (*UVICORN, "--workers", "3"),
    "gunicorn-threads": (*GUNICORN, "--threads", "8"),
    "gunicorn-workers": (*GUNICORN, "--workers", "3"),
    "waitress": ("on_threads.py", "waitress", "{fd}"),
    "wsgiref": ("on_threads.py", "wsgiref", "{fd}"),
}
FASTAPI = ("/sync", "/async", "/stream", "/stream-sync", "/background")
FLASK = ("/sync", "/stream")
PLACES = [(name, path) for name in SERVERS for path in (FASTAPI if name.startswith("uvicorn") else FLASK)]
MANY = [name for name in SERVERS if name.endswith("workers")]


class Served(NamedTuple):
    """A server in a process of its own."""

    url: str
    touched: Path

    def marks(self) -> list[str]:
        """The real tools that were called since this was asked last."""
        found = self.touched.read_text(encoding="utf-8").split() if self.touched.exists() else []
        self.touched.unlink(missing_ok=True)
        return found


class Servers:
    """Each server is started when the first test wants it; its socket is open before, so nobody has to wait."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._running: dict[tuple[str, str], tuple[subprocess.Popen[bytes], Served]] = {}

    def start(self, name: str, token: str = "") -> Served:
        if (name, token) not in self._running:
            self._running[name, token] = self._started(name, token)
        return self._running[name, token][1]

    def _started(self, name: str, token: str) -> tuple[subprocess.Popen[bytes], Served]:
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            fd = listener.fileno()
            served = Served(
                f"http://127.0.0.1:{listener.getsockname()[1]}", self._directory / f"touched-{name}-{bool(token)}"
            )
            process = subprocess.Popen(
                [sys.executable, *(word.format(fd=fd) for word in SERVERS[name])],
                cwd=HERE,
                env={
                    **os.environ,
                    "REPLAYKIT_TAPE": "1",
                    "REPLAYKIT_TAPE_TOKEN": token,
                    "TOUCHED": str(served.touched),
                    "PYTHONPATH": str(HERE),
                    "PYTHONDONTWRITEBYTECODE": "1",
                },
                pass_fds=(fd,),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        return process, served

    def stop(self) -> None:
        for process, _ in self._running.values():
            os.killpg(process.pid, 9)
            process.wait(20)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    running = Servers(tmp_path_factory.mktemp("servers"))
    yield running
    running.stop()


def project(url: str, *sessions: Any, **agent: Any) -> rk.Project:
    Path("incident.yaml").write_text(INCIDENT, encoding="utf-8")
    value = {
        "replaykit": 1,
        "agent": {"type": "http", "endpoint": url, "timeout": 30_000, **agent},
        "contracts": {
            CONTRACT["name"]: {"invariants": CONTRACT["invariants"]},
            "any": {"invariants": [{"id": "answers", "type": "output_not_empty"}]},
        },
        "replays": {"sessions": list(sessions) or [{"file": "incident.yaml"}]},
    }
    Path("replaykit.yaml").write_text(json.dumps(value), encoding="utf-8")
    return rk.load_project("replaykit.yaml")


def replayed(what: rk.Project) -> list[rk.ReplayResult]:
    """All sessions at once, with one candidate."""
    candidate, cases = candidate_of(what), select_cases(what).cases
    with ThreadPoolExecutor(6) as pool:
        return list(pool.map(lambda case: rk.replay(case, candidate), cases))


def session(number: int) -> dict[str, Any]:
    answers = [{"tool": "market_data_api", "response": f"figure {number}"}]
    return {"id": f"s{number}", "input": "q", "contract": "any", "tool_responses": answers}


def asked(url: str, **headers: str) -> tuple[int, bytes]:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    body = json.dumps({"input": "q"}).encode()
    request = urllib.request.Request(url, data=body, headers={"content-type": "application/json", **sent})
    try:
        with urllib.request.urlopen(request, timeout=30) as reply:
            return reply.status, reply.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize(("name", "path"), PLACES)
def test_the_incident_is_replayed(servers: Servers, name: str, path: str) -> None:
    served = servers.start(name)

    (result,) = replayed(project(f"{served.url}{path}"))

    assert result.passed, result.reason
    assert result.run is not None
    assert "unavailable" in str(result.run.output)
    assert [(call.name, call.error and call.error.type) for call in result.run.tool_calls] == [
        ("market_data_api", "ToolError"),
        ("web_search", "ToolError"),
    ]
    assert result.deviations == ()
    assert served.marks() == []


@pytest.mark.parametrize(("name", "path"), [place for place in PLACES if place[1] != "/background"])
def test_replays_at_once_do_not_mix(servers: Servers, name: str, path: str) -> None:
    served = servers.start(name)

    results = replayed(project(f"{served.url}{path}", *(session(number) for number in range(12))))

    assert [result.reason for result in results if not result.passed] == []
    outputs = [str(result.run and result.run.output).removeprefix("It ") for result in results]
    assert outputs == [f"figure {number}" for number in range(12)]
    assert served.marks() == []


@pytest.mark.parametrize("name", SERVERS)
def test_requests_without_a_tape_go_to_the_real_tools_meanwhile(servers: Servers, name: str) -> None:
    served = servers.start(name)
    replay = project(f"{served.url}/sync", *(session(number) for number in range(6)))

    with ThreadPoolExecutor(2) as pool:
        results = pool.submit(replayed, replay)
        statuses = [asked(f"{served.url}/sync")[0] for _ in range(6)]

    assert all(result.passed for result in results.result())
    assert statuses == [500] * 6
    assert served.marks() == ["market_data_api"] * 6


@pytest.mark.parametrize("name", SERVERS)
def test_a_wrong_token_is_refused_and_the_right_one_taken(
    servers: Servers, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = servers.start(name, token="the-token")

    for token, passes in (("", False), ("another", False), ("the-token", True)):
        monkeypatch.setenv("REPLAYKIT_TAPE_TOKEN", token)
        (result,) = replayed(project(f"{served.url}/sync"))
        assert result.passed is passes, result.reason
        assert passes or "does not hold the token" in result.reason
    assert served.marks() == []


@pytest.mark.parametrize("name", SERVERS)
def test_whoever_speaks_for_another_machine_is_refused(servers: Servers, name: str) -> None:
    served = servers.start(name)
    signs = [{"Host": "agents.test"}, {"Origin": "http://agents.test"}]
    if name != "waitress":  # it takes that header away, so that nobody can see it
        signs.append({"X_Forwarded_For": "10.0.0.5"})

    for sign in signs:
        tape = asked(f"{served.url}{TAPE_PATH}", **sign)
        inside = asked(f"{served.url}/sync", **sign, X_Replaykit_Tape="0" * 32)
        assert (tape[0], inside[0]) == (403, 403), sign
    assert served.marks() == []


@pytest.mark.parametrize("name", [name for name in SERVERS if name != "gunicorn-workers"])
def test_what_an_agent_did_before_its_time_was_up_is_told(servers: Servers, name: str) -> None:
    served = servers.start(name)

    (result,) = replayed(project(f"{served.url}/stuck", timeout=5000))

    assert result.run is not None, result.reason
    assert result.run.status == "timeout"
    assert [call.name for call in result.run.tool_calls] == ["market_data_api", "web_search"]
    assert served.marks() == []


@pytest.mark.parametrize("name", MANY)
def test_several_processes_have_all_been_asked(servers: Servers, name: str) -> None:
    """Otherwise these tests would say nothing of several processes."""
    served = servers.start(name)
    told: set[str] = set()
    ends = time.monotonic() + 30  # some may still be starting

    while len(told) < 3 and time.monotonic() < ends:
        told.add(json.loads(asked(f"{served.url}/sync", X_Replaykit_Tape="0" * 32)[1])["process"])

    assert len(told) == 3
