"""The promise as a whole: an agent handles fifty sorts of secrets in every way there is; no file holds one of them."""

from __future__ import annotations

import base64
import functools
import http.server
import importlib.util
import json
import os
import random
import re
import shutil
import string
import subprocess
import sys
import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, quote_plus, urlsplit

import pytest
from tests.commands import run_here
from tests.matrix import sampled

import replaykit as rk
from replaykit.model.events import State
from replaykit.model.run import encode_run
from replaykit.store.sqlite import SQLiteStore

AGENT = Path(__file__).with_name("secretive_agent.py")
LETTERS = string.digits + string.ascii_letters
HEX = "0123456789abcdef"
SHORT = 6


def drawn(count: int, alphabet: str = LETTERS) -> str:
    return "".join(random.Random(f"disk/{count}/{alphabet}").choices(alphabet, k=count))


def with_crc(prefix: str) -> str:
    body, check = drawn(30), ""
    value = zlib.crc32(body.encode())
    digits = string.digits + string.ascii_uppercase + string.ascii_lowercase
    for _ in range(6):
        value, rest = divmod(value, 62)
        check = digits[rest] + check
    return prefix + body + check


def jwt() -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": "8821", "exp": 1900000000})
    encoded = [base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts]
    return ".".join([*encoded, drawn(43)])


def pem() -> str:
    lines = [drawn(64, LETTERS + "+/" + "=" * n) for n in range(5)]
    return "\n".join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])


class Kind(NamedTuple):
    """A secret: its value, the key it stands under, and a sentence that it stands in."""

    value: str
    key: str = "note"
    says: str = "It is {} as far as I know."


KINDS = {
    "bearer": Kind(drawn(40), "authorization", "Authorization: Bearer {}"),
    "openai": Kind("sk-proj-" + drawn(48)),
    "anthropic": Kind("sk-ant-api03-" + drawn(80)),
    "github": Kind(with_crc("ghp_")),
    "github-pat": Kind("github_pat_" + drawn(82)),
    "gitlab": Kind("glpat-" + drawn(20)),
    "slack": Kind("xoxb-" + drawn(11, string.digits) + "-" + drawn(24)),
    "stripe": Kind("sk_live_" + drawn(24)),
    "stripe-webhook": Kind("whsec_" + drawn(32)),
    "aws": Kind("AKIA" + drawn(16, string.ascii_uppercase + "234567")),
    "aws-secret": Kind(drawn(40, LETTERS + "+/"), "aws_secret_access_key", "aws_secret_access_key={}"),
    "google": Kind("AIza" + drawn(35)),
    "google-client": Kind("GOCSPX-" + drawn(28)),
    "sendgrid": Kind(f"SG.{drawn(22)}.{drawn(43)}"),
    "huggingface": Kind("hf_" + drawn(34)),
    "npm": Kind(with_crc("npm_")),
    "pypi": Kind("pypi-AgEIcHlwaS5vcmc" + drawn(60)),
    "shopify": Kind("shpat_" + drawn(32, HEX)),
    "digitalocean": Kind("dop_v1_" + drawn(64, HEX)),
    "databricks": Kind("dapi" + drawn(32, HEX)),
    "vault": Kind("hvs." + drawn(90)),
    "groq": Kind("gsk_" + drawn(52)),
    "langsmith": Kind("lsv2_pt_" + drawn(32, HEX) + "_" + drawn(10, HEX)),
    "linear": Kind("lin_api_" + drawn(40)),
    "notion": Kind("ntn_" + drawn(46)),
    "figma": Kind("figd_" + drawn(40)),
    "mailgun": Kind("key-" + drawn(32, HEX)),
    "jwt": Kind(jwt()),
    "pem": Kind(pem(), "private_key", "the key:\n{}\nthat was it"),
    "password": Kind("tr0ub4dor&Zebra9", "password", "password={}"),
    "client-secret": Kind(drawn(32), "client_secret", "client_secret: {}"),
    "api-key": Kind(drawn(32, HEX), "api_key", "api_key={}"),
    "session-cookie": Kind(drawn(48), "session_token", "session_token={}"),
    "database": Kind("Hx7-qLm2-Vw9z", "db_password", "postgresql://app:{}@db.internal:5432/shop"),
    "redis": Kind("Kd83jfQ0ssLw", "redis_password", "redis://:{}@cache.internal:6379/0"),
    "basic": Kind(base64.b64encode(b"deploy:Wz81-kkQ2-pp").decode(), "authorization", "Authorization: Basic {}"),
    "azure": Kind(drawn(86, LETTERS + "+/") + "==", "account_key", "DefaultEndpointsProtocol=https;AccountKey={}"),
    "webhook": Kind(
        f"https://hooks.slack.com/services/T{drawn(8, '0123456789ABCDEF')}/B{drawn(8, '0123456789ABCDEF')}/{drawn(24)}"
    ),
    "email": Kind("jane.doe+billing@customer-mail.org", "email", "Write to {} tomorrow."),
    "email-upper": Kind("Max.Mustermann@Kunden-Post.DE", "contact", "Schreiben Sie an {} bitte."),
    "card": Kind("4556737586899855", "card_number", "The card is {} indeed."),
    "card-spaced": Kind("5425 2334 3010 9903", "pan", "paid with {} yesterday"),
    "amex": Kind("374245455400126", "cardno", "amex {} was charged"),
    "iban": Kind("DE89370400440532013000", "iban", "IBAN {} please"),
    "iban-spaced": Kind("GB29 NWBK 6016 1331 9268 19", "account", "account {} in London"),
    "ssn": Kind("536-22-8817", "ssn", "SSN {} on file"),
    "phone": Kind("+49 151 23456789", "phone", "call {} after six"),
    "phone-us": Kind("(415) 555-2671", "mobile", "his number is {} at home"),
    "ip": Kind("81.2.69.142", "client_ip", "a request from {} came in"),
    "ipv6": Kind("2a02:8071:b783:2140:1d3a:6f2e:9c41:77be", "client_ip", "a request from {} came in"),
    "imei": Kind("490154203237518", "imei", "IMEI {} was lost"),
    "passport": Kind("C01X00T47", "passport_number", "passport_number: {}"),
    "pin": Kind("739204", "pin", "pin: {}"),
    "totp": Kind(drawn(32, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), "totp_secret", "totp_secret={}"),
}


each_kind = sampled("kind_of_secret", KINDS, count=4, start=1)
Secrets = dict[str, dict[str, str]]


def secrets_of(names: set[str]) -> Secrets:
    return {
        name: {"value": kind.value, "key": kind.key, "says": kind.says.replace("{}", kind.value)}
        for name, kind in KINDS.items()
        if name in names
    }


def spellings(value: str) -> set[bytes]:
    """The value as it may stand in a file: as it is, in JSON, in URLs, without its separators."""
    plain = {value, json.dumps(value)[1:-1], quote(value, safe=""), quote_plus(value), value.replace("\n", " ")}
    if "\n" in value:
        plain |= set(value.splitlines()[1:-1])  # no line of a key alone either
    return {text.encode() for text in plain}


def holds(data: bytes, value: str) -> bool:
    """True when the value stands there. Six digits are also in the middle of many a time, and say nothing there."""
    forms = spellings(value)
    if len(value) > SHORT:
        return any(form in data for form in forms)
    return any(re.search(rb"(?<![\w.])" + re.escape(form) + rb"(?!\w)", data) for form in forms)


class _Service(http.server.BaseHTTPRequestHandler):
    """Says back what it knows of a kind: at once, and as a stream of deltas of a few characters."""

    protocol_version = "HTTP/1.1"
    secrets: Secrets
    seen: list[dict[str, Any]]

    def _kind(self) -> str:
        return parse_qs(urlsplit(self.path).query)["kind"][0]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.seen.append({"path": self.path, "authorization": self.headers["authorization"], "body": body.decode()})
        one = self.secrets[self._kind()]
        self._send("application/json", json.dumps({"text": one["says"], one["key"]: one["value"]}).encode())

    def do_GET(self) -> None:
        text = self.secrets[self._kind()]["says"]
        pieces = [text[at : at + 7] for at in range(0, len(text), 7)]
        events = [json.dumps({"choices": [{"index": 0, "delta": {"content": piece}}]}) for piece in pieces]
        self._send("text/event-stream", "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"]).encode())

    def _send(self, sort: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", sort)
        self.send_header("content-length", str(len(body)))
        self.send_header("set-cookie", f"session={KINDS['session-cookie'].value}; Path=/")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class World(NamedTuple):
    """A project, what its agent handles, and the service that it asks."""

    project: Path
    secrets: Secrets
    seen: list[dict[str, Any]]


@pytest.fixture(scope="module")
def asked_about(request: pytest.FixtureRequest) -> set[str]:
    """The sorts that the tests of this session ask about, which are fewer with `make test`; or all of them."""
    params = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    return {name for each in params if (name := each.get("kind_of_secret"))} or set(KINDS)


@pytest.fixture(scope="module")
def world(asked_about: set[str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    base = tmp_path_factory.mktemp("disk")
    outside, project = base / "outside", base / "project"
    outside.mkdir()
    project.mkdir()
    secrets = secrets_of(asked_about | {"bearer"})  # the agent has a token of its own in any case
    (outside / "secrets.json").write_text(json.dumps(secrets), encoding="utf-8")
    shutil.copy(AGENT, project / "secretive_agent.py")
    seen: list[dict[str, Any]] = []
    service = type("Service", (_Service,), {"secrets": secrets, "seen": seen})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), service)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    patch = pytest.MonkeyPatch()
    patch.setenv("SECRETS_FILE", str(outside / "secrets.json"))
    patch.setenv("SERVICE_URL", f"http://127.0.0.1:{server.server_address[1]}")
    patch.delenv("REPLAYKIT_REDACTION_KEY", raising=False)
    patch.delenv("REPLAYKIT_STORE", raising=False)
    patch.chdir(project)
    yield World(project, secrets, seen)
    patch.undo()
    server.shutdown()
    server.server_close()


def said(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.getcwd())
        for name, value in environment.items():
            patch.setenv(name, value)
        return run_here(*words)


def loaded_agent() -> Any:
    spec = importlib.util.spec_from_file_location("secretive_agent", AGENT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Done(NamedTuple):
    """All that was done in the project: which runs there are, and what each replay said."""

    world: World
    answer: str
    runs: list[str]
    replays: dict[str, Any]
    printed: dict[str, str]


@pytest.fixture(scope="module")
def done(world: World) -> Done:
    """Everything once: recorded in this process and as a program, made into cases, replayed in every way, reported."""
    agent = loaded_agent()
    with rk.record("desk", input={"question": "hello", **{n: one["says"] for n, one in world.secrets.items()}}) as run:
        agent.RUN = run
        answer = run.output = agent.answer("hello")
    asked = len(world.seen)
    assert asked == len(world.secrets)
    program = said("record", "--name", "program", "--", sys.executable, "secretive_agent.py", "hello")
    assert program.returncode == 0, program.stderr
    printed = {"recorded program": program.stdout}
    for name in ("desk", "program"):
        made = said("scaffold", name, "--out", f"cases/{name}")
        assert made.returncode == 0, made.stderr
    key = {"REPLAYKIT_REDACTION_KEY": "f0" * 32}
    replays = {}
    for how, words, env in (
        ("python", ("cases/desk", "--agent", "secretive_agent:answer"), {}),
        ("python, another key", ("cases/desk", "--agent", "secretive_agent:answer"), key),
        ("program", ("cases/program", "--", sys.executable, "secretive_agent.py", "hello"), {}),
        ("program, another key", ("cases/program", "--", sys.executable, "secretive_agent.py", "hello"), key),
    ):
        result = said("replay", "--json", *words, **env)
        printed[how] = result.stdout
        replays[how] = json.loads(result.stdout)
    report_all(printed)
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        runs = [header.id for header in store.headers()]
    return Done(world, answer, runs, replays, printed)


def report_all(printed: dict[str, str]) -> None:
    """The files that are made of runs and replays."""
    Path("replaykit.yaml").write_text(
        "replaykit: 1\nagent: {type: python, endpoint: 'secretive_agent:answer'}\ncases: [cases/desk]\n"
    )
    for words in (
        ("ci", "--only", "replay", "-o", "reports"),
        ("export", "desk", "-o", "desk.json"),
        ("export", "desk", "--format", "replaykit", "-o", "desk-small.json"),
        ("golden", "desk", "--name", "desk"),
        ("scaffold", "desk-small.json", "--out", "cases/again"),
    ):
        done = said(*words)
        assert done.returncode in (0, 1, 5), f"{words}: {done.stderr}"
        printed[" ".join(words)] = done.stdout


@functools.cache
def _bytes_below(project: Path) -> dict[str, bytes]:
    """The bytes of every file, and what the store says of each run, which lies in packs."""
    found = {str(file.relative_to(project)): file.read_bytes() for file in project.rglob("*") if file.is_file()}
    with SQLiteStore.open(project / ".replaykit" / "store.db", read_only=True) as store:
        for header in store.headers():
            run = store.load(header.id)
            found[f"run {header.id}"] = encode_run(run)
            for event in [event for event in run.events if isinstance(event, State)][::9]:
                state = store.state_at(header.id, event.seq)
                found[f"state {event.seq} of run {header.id}"] = json.dumps(state).encode()
    return found


@pytest.mark.parametrize("text", ['{"pin": "739204"}', "pin: 739204.", "pin=739204&x=1"])
def test_a_short_value_is_seen_where_it_stands_and_not_inside_of_numbers(text: str) -> None:
    assert holds(text.encode(), "739204")
    assert not holds(b'{"at": 1763300000.739204, "took": 0.739204, "id": "a739204b", "n": 17392048}', "739204")


@each_kind
def test_no_file_below_the_project_holds_the_value(done: Done, kind_of_secret: str) -> None:
    files = _bytes_below(done.world.project)

    held = sorted(file for file, data in files.items() if holds(data, done.world.secrets[kind_of_secret]["value"]))

    assert held == []


@each_kind
def test_no_report_that_was_printed_as_json_holds_the_value(done: Done, kind_of_secret: str) -> None:
    told = {how: text.encode() for how, text in done.printed.items() if how != "recorded program"}

    held = [how for how, text in told.items() if holds(text, done.world.secrets[kind_of_secret]["value"])]

    assert held == []


def test_every_sort_of_file_was_there_to_look_at(done: Done) -> None:
    files = _bytes_below(done.world.project)

    assert len(KINDS) >= 40
    for part in ("store.db", "case.yaml", "source-trace.json", "fixtures/", "notes.md", "result.json", "summary.md"):
        assert any(part in name for name in files), part
    for part in ("stdout.log", "stderr.log", "runner-output.json", "reports/ci.html", "junit.xml", ".golden.json"):
        assert any(part in name and files[name] for name in files), part


def test_the_agent_and_the_service_had_the_real_values(done: Done) -> None:
    secrets = done.world.secrets
    first = next(iter(secrets.values()))["says"]

    assert done.answer == f"{4 * len(secrets)} seen, the first was {first}"
    assert f"the first was {first}" in done.printed["recorded program"]
    sent = done.world.seen[: len(secrets)]
    assert {one["authorization"] for one in sent} == {f"Bearer {KINDS['bearer'].value}"}
    assert [json.loads(one["body"])["text"] for one in sent] == [one["says"] for one in secrets.values()]


@pytest.mark.parametrize("how", ["python", "program"])
def test_the_case_replays_with_no_divergence(done: Done, how: str) -> None:
    (result,) = done.replays[how]["results"]

    assert result["deviations"] == []
    assert result["verdict"] != "inconclusive", result["reason"]


@pytest.mark.parametrize("how", ["python, another key", "program, another key"])
def test_with_another_key_every_call_is_served_and_shown_as_found_by_kind(done: Done, how: str) -> None:
    (result,) = done.replays[how]["results"]

    assert {deviation["kind"] for deviation in result["deviations"]} == {"rekeyed"}
    assert result["verdict"] != "error", result["reason"]


def test_replays_asked_the_service_nothing(done: Done) -> None:
    assert len(done.world.seen) == 2 * len(done.world.secrets)  # by the two that were recorded
