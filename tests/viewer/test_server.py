"""The server: its documents, whom it answers, and what it sends along with each answer."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote, urlsplit

import pytest
from tests.viewer.serving import Client, documents_of, served

import replaykit as rk
from replaykit.model.events import ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw

PAYLOADS = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "<svg onload=alert(1)>",
    "javascript:alert(1)",
    "</script><script>alert(1)</script>",
    "<!--<script>",
    "\u202egnp.exe",
    "a\x00b\x1b[2J",
    "{{constructor.constructor('alert(1)')()}}",
    "x" * 100_000,
)


@pytest.fixture
def client(store: rk.Store) -> Iterator[Client]:
    """A client of a store with two related runs."""

    @rk.tool
    def lookup(order: int) -> dict[str, object]:
        return {"order": order, "amount": 1250.0}

    @rk.tool
    def refund(amount: float) -> None:
        raise RuntimeError("card declined")

    with rk.record("shop", input="refund order 7", store=store) as run:
        run.checkpoint({"order": 7})
        lookup(7)
    with pytest.raises(RuntimeError), rk.record("shop", input="refund order 8", store=store):
        refund(lookup(8)["amount"])
    with served(documents_of(store)) as client:
        yield client


def run_ids(client: Client) -> list[str]:
    return [run["id"] for run in client.get("api/home").json["runs"]]


def test_the_home_page_lists_the_runs_newest_first(client: Client) -> None:
    home = client.get("api/home").json

    assert home["project"] == "shop"
    assert [run["status"] for run in home["runs"]] == ["error", "success"]
    assert home["runs"][0]["line"] == "refund order 8 → RuntimeError: card declined"
    assert not home["has_more"]


def test_runs_are_filtered_by_status_and_words(client: Client) -> None:
    def found(query: str) -> list[str]:
        return [run["line"][:14] for run in client.get(f"api/home?{query}").json["runs"]]

    assert found("status=success") == ["refund order 7"]
    assert found("q=CARD+shop") == ["refund order 8"]
    assert found("q=nothing") == []
    assert found("status=nonsense") == []


def test_older_runs_follow_the_last_one_of_the_list(store: rk.Store) -> None:
    for number in range(130):
        store.add(TraceRun(id=f"run-{number:03}", started_at=1000.0 + number))
    with served(documents_of(store)) as client:
        first = client.get("api/home").json
        older = client.get(f"api/home?before={first['runs'][-1]['id']}").json

    ids = [run["id"] for run in (*first["runs"], *older["runs"])]
    assert ids == [f"run-{number:03}" for number in reversed(range(130))]
    assert (first["has_more"], older["has_more"]) == (True, False)


def test_a_run_is_found_by_any_of_its_names(client: Client) -> None:
    newest, _ = run_ids(client)

    for name in (newest, newest[:-2], "last", "last-failed", "shop"):
        assert client.get(f"api/run/{name}").json["address"] == newest


def test_the_rows_of_a_failed_run_end_with_where_it_failed(client: Client) -> None:
    *batches, last = client.rows("last-failed")

    assert [row[2] for batch in batches for row in batch["rows"]] == ["lookup(order=8)", "refund(amount=1250.0)"]
    assert last["page"]["opens_at"] == 1
    assert last["page"]["why"] == "refund: RuntimeError: card declined"


def test_each_event_is_one_document(client: Client) -> None:
    page = client.get("api/run/last-failed/event/1").json

    assert page["arguments"] == {"amount": 1250.0}
    assert page["errors"] == [{"type": "RuntimeError", "message": "card declined"}]


def test_a_state_a_search_a_family_and_ungrounded_figures_are_documents(client: Client) -> None:
    _, first = run_ids(client)

    assert client.get(f"api/run/{first}/state/1").json["state"] == {"order": 7}
    found = client.get("api/run/last-failed/find?text=1%2C250").json
    assert [(one["seq"], one["place"], one["path"], one["is_exact"]) for one in found] == [
        (0, "result", "$.amount", False),
        (1, "arguments", "$.amount", False),
    ]
    assert client.get(f"api/run/{first}/family").json["run"]["id"] == first
    assert client.get(f"api/run/{first}/ungrounded").json == []


def test_two_runs_are_compared(client: Client) -> None:
    b, a = run_ids(client)

    page = client.get(f"api/compare/{a}/{b}").json

    assert (page["a"]["address"], page["b"]["address"]) == (a, b)
    assert page["comparison"]["identical"] is False


@pytest.mark.parametrize(
    "path",
    [
        "api/run/nobody",
        "api/run/nobody/rows",
        "api/run/last/event/99",
        "api/run/last/event/-1",
        "api/run/last/event/x",
        "api/run/replay:nothing",
        "api/run/case:nothing",
        "api/replay/nothing",
        "api/replay/..",
        "api/replay/..%2F..%2Fetc",
        "api/case/%2Fetc",
        "api/compare/last/nobody",
        "api/nothing",
        "static/nothing.js",
        "static/..%2Fserver.py",
        "static/%2Fetc%2Fpasswd",
        "static/index.html",
        "nothing",
    ],
)
def test_what_is_not_there_is_a_problem_in_words(client: Client, path: str) -> None:
    answer = client.get(path)

    assert answer.status == 404
    assert answer.json["problem"]


def test_the_page_and_its_modules_come_with_their_types(client: Client) -> None:
    index, script, style = (client.get(path) for path in ("", "static/main.js", "static/style.css"))

    assert index.headers["Content-Type"] == "text/html; charset=utf-8"
    assert b'src="static/main.js"' in index.body
    assert b'href="static/style.css"' in index.body
    assert script.headers["Content-Type"] == "text/javascript; charset=utf-8"
    assert style.headers["Content-Type"] == "text/css; charset=utf-8"


@pytest.mark.parametrize("path", ["", "static/main.js", "api/home", "api/run/last/rows", "api/nothing", "nothing"])
def test_every_answer_forbids_all_but_the_viewer(client: Client, path: str) -> None:
    headers = client.get(path).headers

    policy = dict(part.split(" ", 1) for part in headers["Content-Security-Policy"].split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cross-Origin-Opener-Policy"] == headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.lower().startswith("access-control")]


PATHS = ("", "static/main.js", "api/home", "api/run/last/rows", "nothing")


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("start", ["/", "/api/", "//", "/wrong/", "/TOKEN~/", "/?TOKEN=/", "/token/"])
def test_nobody_gets_in_without_the_token(client: Client, start: str, path: str) -> None:
    token = urlsplit(client.url).path.strip("/")

    answer = client.ask(start.replace("TOKEN", token[:-1]) + path)

    assert answer.status == 403
    assert "Content-Security-Policy" in answer.headers


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "attacker.example"},
        {"Host": "attacker.example:PORT"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:1"},
        {"Host": "localhost.attacker.example:PORT"},
        {"Host": "0.0.0.0:PORT"},
        {"Origin": "http://attacker.example"},
        {"Origin": "https://127.0.0.1:PORT"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "null"},
        {"Origin": "file://"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_other_names_and_pages_of_others_are_refused(client: Client, headers: dict[str, str], path: str) -> None:
    port = client.host.partition(":")[2]
    own = urlsplit(client.url).path

    answer = client.ask(own + path, **{name: value.replace("PORT", port) for name, value in headers.items()})

    assert answer.status == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:PORT"},
        {"Origin": "http://127.0.0.1:PORT", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none"},
    ],
)
def test_the_own_page_is_answered(client: Client, headers: dict[str, str]) -> None:
    port = client.host.partition(":")[2]
    path = urlsplit(client.url).path + "api/home"

    assert client.ask(path, **{name: value.replace("PORT", port) for name, value in headers.items()}).status == 200


@pytest.mark.parametrize(
    ("path", "mode", "dest", "status"),
    [
        ("", "navigate", "document", 200),
        ("", "navigate", "iframe", 403),
        ("", "no-cors", "script", 403),
        ("api/home", "navigate", "document", 403),
        ("static/main.js", "navigate", "document", 403),
    ],
)
def test_a_file_may_lead_to_the_page_and_to_nothing_else(
    client: Client, path: str, mode: str, dest: str, status: int
) -> None:
    headers = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}

    assert client.ask(urlsplit(client.url).path + path, **headers).status == status


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "TRACE"])
def test_nothing_but_reading_is_answered(client: Client, method: str) -> None:
    assert client.ask(urlsplit(client.url).path + "api/home", method=method).status in (403, 404, 405)


def test_the_address_is_another_one_each_time(store: rk.Store) -> None:
    with served(documents_of(store)) as one, served(documents_of(store)) as other:
        assert urlsplit(one.url).path != urlsplit(other.url).path
        assert len(urlsplit(one.url).path) > 30


@pytest.mark.parametrize(
    "head",
    [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", b"\x00" * 100 + b"\r\n\r\n"],
    ids=["no request", "two hosts", "zeros"],
)
def test_a_broken_request_ends_its_connection_only(client: Client, head: bytes) -> None:
    host, _, port = client.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(head)
        assert connection.recv(4096)[9:12] in (b"400", b"403")

    assert client.get("api/home").status == 200


@pytest.mark.parametrize("start", [b"OPTIONS *", b"GET /\xff/", b"GET http://a/b", b"GET ?"])
def test_strange_paths_are_refused(client: Client, start: bytes) -> None:
    host, _, port = client.host.partition(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(start + f" HTTP/1.1\r\nHost: {client.host}\r\n\r\n".encode())
        assert connection.recv(4096)[9:12] in (b"400", b"403")


def test_a_run_that_was_written_anew_is_read_anew(store: rk.Store) -> None:
    store.add(TraceRun(id="traced", events=(ToolCall(seq=0, name="first"),), started_at=1.0))
    with served(documents_of(store)) as client:
        assert [row[2] for row in client.rows("traced")[0]["rows"]] == ["first(None)"]
        store.replace([TraceRun(id="traced", events=(ToolCall(seq=0, name="late"),), started_at=1.0, name="new")])

        assert client.get("api/run/traced").json["header"]["name"] == "new"
        assert [row[2] for row in client.rows("traced")[0]["rows"]] == ["late(None)"]


def test_hostile_values_are_data_of_their_documents(store: rk.Store) -> None:
    calls = tuple(
        ToolCall(seq=seq, name=text[:1000], arguments_json=raw({text: text}), result_json=raw(text))
        for seq, text in enumerate(PAYLOADS)
    )
    store.add(TraceRun(id="hostile", name=PAYLOADS[0], events=calls, input_json=raw(PAYLOADS[4])))
    with served(documents_of(store)) as client:
        for seq, text in enumerate(PAYLOADS):
            answer = client.get(f"api/run/hostile/event/{seq}")
            assert answer.headers["Content-Type"] == "application/json; charset=utf-8"
            assert answer.json["arguments"] == {text: text}
            found = client.get(f"api/run/hostile/find?text={quote(text[:500])}")
            assert [one["seq"] for one in found.json][:1] == [PAYLOADS.index(text)] or text == PAYLOADS[0]
        assert len(client.rows("hostile")[0]["rows"]) == len(PAYLOADS)


RECORDING = """
import sys
import replaykit as rk

@rk.tool
def work(number):
    return number

with rk.record("live", store="store.db") as run:
    print(run.id, flush=True)
    for line in sys.stdin:
        work(int(line))
        print("done", flush=True)
"""


def test_the_rows_of_a_recording_follow_it_until_it_ends(own_directory: Path) -> None:
    with rk.Store.open("store.db"):
        pass
    recording = subprocess.Popen(
        [sys.executable, "-c", RECORDING], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=own_directory
    )
    assert recording.stdin is not None
    assert recording.stdout is not None
    run_id = recording.stdout.readline().strip()

    def work(number: int) -> None:
        recording.stdin.write(f"{number}\n")
        recording.stdin.flush()
        assert recording.stdout.readline() == "done\n"

    with rk.Store.open("store.db", read_only=True) as store, served(documents_of(store)) as client:
        work(0)
        assert client.get(f"api/run/{run_id}").json["is_running"]
        connection = client.connection()
        connection.request("GET", f"{urlsplit(client.url).path}api/run/{run_id}/rows")
        response = connection.getresponse()
        assert [row[2] for row in json.loads(response.readline())["rows"]] == ["work(number=0)"]
        for number in (1, 2):
            work(number)
            (row,) = json.loads(response.readline())["rows"]
            assert row[2] == f"work(number={number})"
        assert client.get(f"api/run/{run_id}/event/2").json["result"] == 2
        recording.stdin.close()
        assert recording.wait(20) == 0
        last = json.loads(response.readline())["page"]
        assert response.read() == b""
        connection.close()
    recording.stdout.close()

    assert last["header"]["status"] == "success"
    assert last["totals"]["events"] == 3


def test_the_server_ends_while_a_recording_is_followed(store: rk.Store) -> None:
    writer = store.begin(RunHeader(id="live"))
    writer.append(ToolCall(seq=0, name="work"))
    with served(documents_of(store)) as client:
        connection = client.connection()
        connection.request("GET", f"{urlsplit(client.url).path}api/run/live/rows")
        response = connection.getresponse()
        response.readline()
        begun = time.monotonic()
    assert time.monotonic() - begun < 10
    connection.close()
    writer.finish(RunHeader(id="live", status=RunStatus.SUCCESS, event_count=1))
