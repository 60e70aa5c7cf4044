"""Access to the proxy: the program's processes are handed a token, and nobody else gets anywhere."""

from __future__ import annotations

import http.client
import re
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from tests.matrix import sampled
from tests.programs.conftest import Upstream, whole
from tests.programs.test_programs import STRANGER, recorded, write
from tests.store.damaged import store_files

from replaykit.handlers.replay.world import World
from replaykit.model.run import encode_run
from replaykit.programs.launch_options import LaunchOptions
from replaykit.programs.launcher import LaunchEnvironment, launch_environment
from replaykit.programs.plan import Mode, ProgramPlan, read_plan
from replaykit.store.sqlite import SQLiteStore

CLIENTS = {
    "urllib": "import urllib.request\nprint(urllib.request.urlopen(url, timeout=20).read().decode())",
    "requests": "import requests\nprint(requests.get(url, timeout=20).text)",
    "httpx": "import httpx\nprint(httpx.get(url, timeout=20).text)",
    "aiohttp": """import aiohttp, asyncio
async def ask():
    async with aiohttp.ClientSession(trust_env=True) as session, session.get(url) as answer:
        print(await answer.text())
asyncio.run(ask())""",
}


@pytest.fixture
def launch(tmp_path: Path, upstream: Upstream) -> Iterator[LaunchEnvironment]:
    """The launch environment of a recording, with its proxy at work."""
    plan = ProgramPlan(mode=Mode.RECORD, run_id="r1", store=str(tmp_path / "parts.db"))
    with launch_environment(plan, None, tmp_path, LaunchOptions(upstreams={"crm": f"{upstream.url}/v1"}), {}) as found:
        yield found


def forward(launch: LaunchEnvironment) -> tuple[str, str]:
    """The place of the proxy, and the token."""
    parts = urlsplit(launch.environment["REPLAYKIT_PROXY"])
    assert parts.password
    return f"127.0.0.1:{parts.port}", parts.password


def ask(launch: LaunchEnvironment, method: str, target: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection(forward(launch)[0], timeout=20)
    try:
        connection.request(method, target, headers={name.replace("_", "-"): value for name, value in headers.items()})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


@pytest.mark.parametrize("target", ["{upstream}/secret", "http://169.254.169.254/latest/meta-data/"])
def test_nobody_else_can_use_it_as_a_forward_proxy(launch: LaunchEnvironment, upstream: Upstream, target: str) -> None:
    status, text = ask(launch, "GET", target.format(upstream=upstream.url))

    assert status == 407
    assert "REPLAYKIT_PROXY" in text
    assert upstream.asked == []


def test_who_asks_without_credentials_is_asked_for_them(launch: LaunchEnvironment, upstream: Upstream) -> None:
    connection = http.client.HTTPConnection(forward(launch)[0], timeout=20)
    connection.request("GET", f"{upstream.url}/x")

    answer = connection.getresponse()

    assert answer.headers["proxy-authenticate"] == 'Basic realm="replaykit"'
    connection.close()


@pytest.mark.parametrize("wrong", ["Basic eDp5", "Basic !", "Bearer x", "", "Basic cmVwbGF5a2l0Og=="])
def test_wrong_credentials_are_none(launch: LaunchEnvironment, upstream: Upstream, wrong: str) -> None:
    assert ask(launch, "GET", f"{upstream.url}/x", proxy_authorization=wrong)[0] == 407
    assert ask(launch, "CONNECT", "api.example:443", proxy_authorization=wrong)[0] == 407
    assert upstream.asked == []


def test_nobody_else_reaches_the_upstreams_or_the_recording(launch: LaunchEnvironment, upstream: Upstream) -> None:
    for path in ("/crm/models", f"/replaykit-{'0' * 32}/crm/models"):
        assert ask(launch, "GET", path)[0] == 403
    for path in ("/", "/.well-known/oauth-protected-resource"):
        status, text = ask(launch, "GET", path)
        assert (status, "crm" in text) == (404, False)

    assert upstream.asked == []


def test_variables_lead_to_the_upstreams_with_the_token(launch: LaunchEnvironment, upstream: Upstream) -> None:
    upstream.script = lambda _: [whole(b"yes")]

    with urllib.request.urlopen(f"{launch.environment['CRM_BASE_URL']}/models", timeout=20) as answer:
        assert answer.read() == b"yes"

    assert upstream.asked[0].path == "/v1/models"


def test_the_proxys_own_address_is_a_way_to_the_upstreams_as_well(
    launch: LaunchEnvironment, upstream: Upstream
) -> None:
    curl = shutil.which("curl")
    if curl is None:
        pytest.skip("curl is not here")
    upstream.script = lambda _: [whole(b"yes")]

    done = subprocess.run(
        [curl, "-s", f"{launch.environment['REPLAYKIT_PROXY']}/crm/x"], capture_output=True, timeout=20
    )

    assert done.stdout == b"yes"
    assert not {"authorization", "proxy-authorization"} & {name.lower() for name in upstream.asked[0].headers}


@sampled("client", [*CLIENTS, "curl"], count=2)
def test_a_client_that_takes_the_address_for_its_proxy_sends_the_token(
    launch: LaunchEnvironment, upstream: Upstream, client: str
) -> None:
    upstream.script = lambda _: [whole(b"reached")]
    url = f"{upstream.url}/page"
    environment = {"http_proxy": launch.environment["REPLAYKIT_PROXY"], "no_proxy": ""}
    command = [sys.executable, "-c", f"url = {url!r}\n{CLIENTS.get(client, '')}"]
    if client == "curl":
        command = [shutil.which("curl") or pytest.skip("curl is not here"), "-s", url]

    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)

    assert done.stdout.strip() == "reached", done.stderr
    assert "proxy-authorization" not in {name.lower() for name in upstream.asked[0].headers}


def test_redirects_to_an_upstream_keep_the_token(launch: LaunchEnvironment, upstream: Upstream) -> None:
    upstream.script = lambda asked: [
        whole(b"", "307 Temporary Redirect", location="/v1/new") if asked.path == "/v1/old" else whole(b"moved")
    ]

    with urllib.request.urlopen(f"{launch.environment['CRM_BASE_URL']}/old", timeout=20) as answer:
        assert answer.read() == b"moved"


def test_a_replay_asks_for_the_token_too(tmp_path: Path) -> None:
    plan = ProgramPlan(mode=Mode.REPLAY, run_id="r1", store=str(tmp_path / "parts.db"))
    with launch_environment(plan, World(case_id="c1"), tmp_path, LaunchOptions(), {}) as launch:
        assert ask(launch, "GET", "/openai/models")[0] == 403
        assert ask(launch, "GET", "http://api.example/models")[0] == 407
        assert launch.environment["HTTPS_PROXY"] == launch.environment["REPLAYKIT_PROXY"]
        assert read_plan(tmp_path)[0].token == forward(launch)[1]


@pytest.mark.parametrize("interpreter", [[sys.executable], STRANGER], ids=["recording itself", "at the proxy"])
def test_the_token_is_in_no_recording(upstream: Upstream, interpreter: list[str]) -> None:
    upstream.script = lambda asked: [
        whole(b"", "307 Temporary Redirect", location="/v1/new") if asked.path == "/v1/old" else whole(b"moved")
    ]
    code = """
    import os, urllib.error, urllib.request
    base = os.environ["CRM_BASE_URL"]
    urllib.request.urlopen(base + "/old", timeout=20).read()
    with open("token.txt", "w") as file:
        file.write(base.split("/")[3])
    print("asked", base)
    raise SystemExit("failed at " + base)
    """
    live = recorded(*interpreter, write(code), launch_options=LaunchOptions(upstreams={"crm": f"{upstream.url}/v1"}))

    assert [call.name for call in live.run.calls] == ["GET crm/old", "GET crm/new"]
    token = Path("token.txt").read_text()
    assert re.fullmatch("replaykit-[0-9a-f]{32}", token)
    with SQLiteStore.open("store.db") as store:
        assert token not in encode_run(store.load(live.run.id)).decode()
    assert not any(token.encode() in file.read_bytes() for file in store_files(Path("store.db")))
