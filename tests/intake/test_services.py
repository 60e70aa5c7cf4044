"""What holds for every service: bounds of time, size and number, patience, keys that stay home, and sources."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests import langfuse_server, mlflow_server, phoenix_server
from tests.intake import test_phoenix
from tests.intake.garbled_responses import garbling
from tests.matrix import examples
from tests.service_server import Fake, Said, Seen, serving

import replaykit as rk
from replaykit.cases.find import Unusable
from replaykit.cases.session import Session
from replaykit.errors import FetchFailed, ReplayKitError, UsageError
from replaykit.formats.core.json_text import decode_lenient
from replaykit.formats.core.run_query import Status
from replaykit.intake.entries import ImportRecord
from replaykit.intake.services import SERVICES, fetch_records, langfuse, mlflow, open_service, phoenix
from replaykit.intake.services.client import FetchedSource, ServiceClient, ServiceReply, ServiceRequest
from replaykit.intake.services.fetching import Query, Service, newest
from replaykit.intake.services.transport import ATTEMPTS, Transport
from replaykit.intake.source_sessions import sessions_of
from replaykit.intake.store_import import store_run
from replaykit.model.run import RunStatus
from replaykit.project.project import Project, load_project

Run = Callable[..., Any]
RUNS = {"langfuse": "4bf92f3577b34da6", "phoenix": test_phoenix.FAILED, "mlflow": "tr-failed"}
NAMED = {"langfuse": (), "phoenix": ("--project", "support"), "mlflow": ()}
WHOLE = {"langfuse": ("--all",), "phoenix": ("--project", "support"), "mlflow": ("--experiment", "support")}
KEYS = {"langfuse": langfuse_server.SECRET, "phoenix": phoenix_server.KEY, "mlflow": mlflow_server.TOKEN}
LISTS = {"langfuse": "/api/public/traces", "phoenix": "/spans", "mlflow": "/traces/search"}
OTHERS = [name for name in SERVICES if name != "langsmith"]


class Kept(NamedTuple):
    """A service that holds one failed trace."""

    name: str
    fake: Any

    @property
    def one(self) -> tuple[str, ...]:
        return ("import", self.name, "--trace", RUNS[self.name], *NAMED[self.name])

    @property
    def all(self) -> tuple[str, ...]:
        return ("import", self.name, *WHOLE[self.name], "--json")

    def lists(self, seen: Seen) -> bool:
        """True for a request that asks which traces there are."""
        return seen.route.endswith(LISTS[self.name]) and "trace_id" not in seen.query

    def failing(self, count: int) -> None:
        """Let it hold so many failed traces."""
        ids = [f"{number:032x}" for number in range(1, count + 1)]
        if self.name == "langfuse":
            self.fake.traces = [langfuse_server.incident(one) for one in ids]
        elif self.name == "mlflow":
            self.fake.traces = [mlflow_server.trace_of("trace_error", one) for one in ids]
        else:
            self.fake.spans = [span for one in ids for span in test_phoenix.failed(one)]


def server(name: str) -> AbstractContextManager[Any]:
    made: dict[str, Callable[[], AbstractContextManager[Any]]] = {
        "langfuse": langfuse_server.langfuse_server,
        "phoenix": phoenix_server.phoenix_server,
        "mlflow": mlflow_server.mlflow_server,
    }
    return made[name]()


@pytest.fixture(params=OTHERS)
def kept(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    name: str = request.param
    with server(name) as fake:
        {"langfuse": langfuse_server, "phoenix": phoenix_server, "mlflow": mlflow_server}[name].set_account(
            fake, monkeypatch
        )
        if name == "langfuse":
            fake.traces = [langfuse_server.incident()]
        elif name == "phoenix":
            fake.spans = test_phoenix.failed()
        else:
            fake.traces = [mlflow_server.trace_of("trace_error", "tr-failed")]
        yield Kept(name, fake)


def in_turn(*answers: Said | None) -> Callable[[Seen], Said | None]:
    """These answers, one after another; then the usual ones."""
    waiting = itertools.chain(answers, itertools.repeat(None))
    return lambda _seen: next(waiting)


def held(run_id: str) -> rk.TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_service_that_is_busy_is_asked_again_when_it_says(replaykit: Run, kept: Kept, status: int) -> None:
    kept.fake.said = in_turn(Said(status, b"", {"retry-after": "0"}), Said(status, b""))

    ran = replaykit(*kept.all)

    assert (ran.code, ran.results) == (0, {RUNS[kept.name]: "imported"})
    assert len({seen.path for seen in kept.fake.seen[:3]}) == 1


def test_a_service_that_stays_busy_is_given_up(replaykit: Run, kept: Kept) -> None:
    kept.fake.said = lambda _seen: Said(503, b"", {"retry-after": "0"})

    ran = replaykit(*kept.all)

    assert (ran.code, len(kept.fake.seen)) == (3, ATTEMPTS)
    assert "answered 503 each time" in ran.err
    assert not Path(".replaykit").exists()


def test_a_service_that_asks_for_more_patience_than_there_is_is_an_error(replaykit: Run, kept: Kept) -> None:
    kept.fake.said = lambda _seen: Said(429, b"", {"retry-after": "3600"})

    ran = replaykit(*kept.one)

    assert (ran.code, len(kept.fake.seen)) == (3, 1)
    assert "answered 429 each time, and asks to wait '3600'" in ran.err


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(replaykit: Run, kept: Kept) -> None:
    with serving(Fake()) as other:
        kept.fake.said = lambda seen: Said(307, b"", {"location": f"{other.url}{seen.path}"})

        ran = replaykit(*kept.all)

        assert (ran.code, "answered 307" in ran.err, other.seen) == (3, True, [])


def test_an_answer_that_drips_is_given_up(replaykit: Run, kept: Kept) -> None:
    stop = threading.Event()

    def drops() -> Iterator[bytes]:
        while not stop.wait(0.02):
            yield b" "

    kept.fake.said = lambda _seen: Said(200, drops(), {"content-length": "1000000"})
    try:
        ran = replaykit(*kept.one, "--timeout", "0.3")
    finally:
        stop.set()

    assert (ran.code, "gave no answer within" in ran.err) == (3, True)


def test_an_answer_that_is_too_large_is_refused(replaykit: Run, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.candidates.http_client.MAX_OUTPUT_BYTES", 10_000)
    kept.fake.said = lambda _seen: Said(200, b"[" + b" " * 20_000 + b"]")

    ran = replaykit(*kept.one)

    assert (ran.code, "more than 10,000 bytes" in ran.err) == (3, True)


@pytest.mark.parametrize("body", [b'{"data": [', b"<html>", b"\xff\xfe", b"", b"[" * 100_000])
def test_an_answer_that_is_no_json_is_told(replaykit: Run, kept: Kept, body: bytes) -> None:
    kept.fake.said = lambda _seen: Said(200, body)

    ran = replaykit(*kept.all)

    assert (ran.code, "returned something that is not JSON" in ran.err) == (3, True)


@pytest.mark.parametrize("body", [[], {}, None, 3, {"data": 3, "traces": 3}, {"experiment": 3, "data": {}}])
def test_an_answer_of_another_shape_is_told(replaykit: Run, kept: Kept, body: Any) -> None:
    kept.fake.said = lambda _seen: Said(200, body)

    ran = replaykit(*kept.all)

    assert ran.code in (3, 5)
    assert "returned something that is not" in ran.err or "no run was imported" in ran.err


def test_nobody_there_is_told_with_the_variable_that_says_where(
    replaykit: Run, kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"langfuse": "LANGFUSE_BASE_URL", "phoenix": "PHOENIX_COLLECTOR_ENDPOINT", "mlflow": "MLFLOW_TRACKING_URI"}
    monkeypatch.setenv(names[kept.name], "http://127.0.0.1:9")

    ran = replaykit(*kept.one)

    assert ran.code == 3
    assert f"Is {names[kept.name]} the right address, and is it up?" in ran.err


def test_pages_that_lead_in_a_circle_are_an_error(replaykit: Run, kept: Kept) -> None:
    pages: dict[str, Any] = {
        "langfuse": {"data": [], "meta": {"page": 1, "totalPages": 9}},
        "phoenix": {"data": [], "next_cursor": "a"},
        "mlflow": {"traces": [], "next_page_token": "a"},
    }
    kept.fake.said = lambda seen: Said(200, pages[kept.name]) if kept.lists(seen) else None

    ran = replaykit(*kept.all)

    assert (ran.code, "leads from a page back to it" in ran.err) == (3, True)
    assert len([seen for seen in kept.fake.seen if kept.lists(seen)]) == 2


@pytest.mark.parametrize("kept", ["langfuse", "phoenix"], indirect=True)  # one of MLflow is one answer
def test_a_trace_that_is_too_large_is_one_failure(replaykit: Run, kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.intake.services.client.MAX_TRACE_BYTES", 500)
    if kept.name == "langfuse":
        kept.fake.versions = (4,)

    ran = replaykit(*kept.all)

    assert (ran.code, ran.results) == (1, {RUNS[kept.name]: "failed"})
    assert "more than 500 bytes for one trace" in ran.err


def test_after_a_few_traces_in_a_row_that_fail_nobody_goes_on(replaykit: Run, kept: Kept) -> None:
    kept.failing(6)
    kept.fake.said = lambda seen: (
        None if kept.lists(seen) or "experiments" in seen.route else Said(400, b"no", {"content-type": "text/plain"})
    )

    ran = replaykit(*kept.all)

    assert ran.code == 1
    assert "was stopped" in ran.err
    assert [*ran.results.values()] == ["failed"] * 4


def test_one_trace_that_fails_stops_no_other(replaykit: Run, kept: Kept) -> None:
    kept.failing(3)
    bad = f"{2:032x}"
    kept.fake.said = lambda seen: Said(418, b"no") if bad in seen.path else None

    ran = replaykit(*kept.all)

    assert ran.code == 1
    assert ran.results == {f"{number:032x}": "failed" if number == 2 else "imported" for number in (1, 2, 3)}


def test_a_run_that_comes_in_twice_is_one_run(replaykit: Run, kept: Kept) -> None:
    replaykit(*kept.all)

    ran = replaykit(*kept.all)

    assert ran.results == {RUNS[kept.name]: "unchanged"}
    assert held(RUNS[kept.name]).origin.format == kept.name


def test_a_case_is_made_of_a_failed_run_and_can_be_replayed(replaykit: Run, kept: Kept) -> None:
    ran = replaykit(*kept.all, "--scaffold", "cases")

    (case,) = (entry["case"] for entry in ran.entries)
    assert (ran.code, case["result"]) == (0, "made")
    assert replaykit("lint", "cases").code == 0


def test_a_dry_run_writes_nothing(replaykit: Run, kept: Kept) -> None:
    ran = replaykit(*kept.one, "--dry-run")

    assert (ran.code, "nothing was written" in ran.out, list(Path().iterdir())) == (0, True, [])


@pytest.mark.parametrize("more", [("--since", "7d"), ("--status", "all"), ("--limit", "3"), ("--min-latency-ms", "1")])
def test_what_chooses_among_many_does_not_go_with_one(replaykit: Run, kept: Kept, more: tuple[str, ...]) -> None:
    ran = replaykit(*kept.one, *more)

    assert (ran.code, kept.fake.seen) == (2, [])
    assert f"--trace names one, and {more[0]} chooses among many" in ran.err


def test_nothing_of_the_key_is_left_behind(replaykit: Run, kept: Kept) -> None:
    told = []
    for said in (None, Said(418, {"detail": f"bad key {KEYS[kept.name]}"})):
        kept.fake.said = lambda _seen, said=said: said
        told.append(replaykit("--debug", *kept.one))

    assert [ran.code for ran in told] == [0, 3]
    assert "bad key ${" in told[1].err
    assert not [ran for ran in told if KEYS[kept.name] in ran.out + ran.err]
    files = [file for file in Path().rglob("*") if file.is_file()]
    assert files
    assert not [file for file in files if KEYS[kept.name].encode() in file.read_bytes()]


def project(*sources: dict[str, Any]) -> Project:
    invariants = [{"id": "answers", "type": "output_not_empty"}]
    value = {"replaykit": 1, "contracts": {"Only": {"invariants": invariants}}, "replays": {"sources": list(sources)}}
    Path("replaykit.yaml").write_text(json.dumps(value, indent=1))
    return load_project("replaykit.yaml")


SOURCES: dict[str, dict[str, Any]] = {
    "langfuse": {"type": "langfuse"},
    "phoenix": {"type": "phoenix", "project": "support"},
    "mlflow": {"type": "mlflow", "experiment": "support"},
}


def test_a_source_is_fetched_once_and_kept_in_a_place_of_its_service(kept: Kept) -> None:
    made = project(SOURCES[kept.name])

    (first,) = sessions_of(made).sessions
    asked = len(kept.fake.seen)
    (second,) = sessions_of(made).sessions

    assert isinstance(first, Session)
    assert (first.id, first.contract, first.source) == (RUNS[kept.name], "Only", kept.name)
    assert (second.id, second.file) == (first.id, first.file)
    assert len(kept.fake.seen) == asked
    assert first.file.resolve().is_relative_to(Path("replays", kept.name).resolve())


def test_a_source_with_auto_import_is_fetched_each_time(kept: Kept) -> None:
    made = project({**SOURCES[kept.name], "auto_import": True})

    sessions_of(made)
    asked = len(kept.fake.seen)
    sessions_of(made)

    assert len(kept.fake.seen) == 2 * asked
    assert not Path("replays").exists()


def test_a_source_of_one_trace_is_one_file(replaykit: Run, kept: Kept) -> None:
    beside = {"project": "support"} if kept.name == "phoenix" else {}
    project({"type": kept.name, "trace_id": RUNS[kept.name], **beside})

    ran = replaykit("import", "sources", "--json")

    assert (ran.code, ran.results) == (0, {RUNS[kept.name]: "imported"})
    assert Path("replays", kept.name, f"{RUNS[kept.name]}.yaml").exists()


def test_a_source_that_cannot_be_asked_is_an_error_with_its_line_and_stops_no_other(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY", "LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    made = project({"type": "langsmith", "project": "p"}, SOURCES[kept.name])

    first, second = sessions_of(made).sessions

    line = Path("replaykit.yaml").read_text().splitlines().index('    "type": "langsmith",')
    assert isinstance(first, Unusable)
    assert f"replaykit.yaml:{line}: langsmith p: LangSmith needs a key" in first.reason
    assert second.id == RUNS[kept.name]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"type": "langfus"}, "Did you mean 'langfuse'?"),
        ({"type": "langfuse", "project": "p"}, "project cannot be used with type langfuse"),
        ({"type": "phoenix"}, "the key 'project' is missing for type phoenix"),
        ({"type": "phoenix", "project": "p", "run_id": "x"}, "run_id cannot be used with type phoenix"),
        ({"type": "phoenix", "trace_id": "x"}, "the key 'project' is missing for type phoenix"),
        ({"type": "mlflow"}, "the key 'experiment' is missing for type mlflow"),
        ({"type": "mlflow", "trace_id": "x", "experiment": "e"}, "experiment cannot be combined with trace_id"),
        ({"type": "langfuse", "trace_id": "x", "limit": 3}, "limit cannot be combined with trace_id"),
        ({"type": "langsmith", "project": "p", "trace_id": "x"}, "trace_id cannot be used with type langsmith"),
        ({"type": "langfuse", "filter": {"date_range": "last_7_dys"}}, "did you mean 'last_7_days'?"),
    ],
)
def test_a_source_that_is_wrong_is_an_error_with_the_line(source: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        project(source)

    assert said in str(caught.value)
    assert "replaykit.yaml:" in str(caught.value)


def test_a_service_is_known_by_its_name(kept: Kept) -> None:
    assert isinstance(open_service(kept.name), Service)
    assert [record.id for record in fetch_records(kept.name, (RUNS[kept.name],), "support")] == [RUNS[kept.name]]


NOON = dt.datetime(2026, 2, 15, 12, tzinfo=dt.UTC)


@pytest.mark.parametrize(
    ("query", "run", "fits"),
    [
        (Query(), rk.TraceRun(id="x", status=RunStatus.ERROR), True),
        (Query(), rk.TraceRun(id="x", status=RunStatus.TIMEOUT), True),
        (Query(), rk.TraceRun(id="x", status=RunStatus.CANCELLED), False),
        (Query(), rk.TraceRun(id="x", status=RunStatus.SUCCESS), False),
        (Query(status=Status.ALL), rk.TraceRun(id="x"), True),
        (Query(status=Status.WARNING), rk.TraceRun(id="x", status=RunStatus.SUCCESS), False),
        (Query(status=Status.ALL, since=NOON), rk.TraceRun(id="x", started_at=NOON.timestamp() - 1), False),
        (Query(status=Status.ALL, since=NOON), rk.TraceRun(id="x", started_at=NOON.timestamp()), True),
        (Query(status=Status.ALL, since=NOON), rk.TraceRun(id="x"), True),
        (Query(status=Status.ALL, min_latency_ms=10), rk.TraceRun(id="x", started_at=1.0, ended_at=1.005), False),
        (Query(status=Status.ALL, min_latency_ms=10), rk.TraceRun(id="x"), False),
    ],
)
def test_each_run_is_looked_at_again_whatever_the_service_made_of_the_question(
    query: Query, run: rk.TraceRun, fits: bool
) -> None:
    assert query.fits(run) is fits


def test_how_many_came_and_not_how_many_traces_there_were_is_what_the_limit_counts() -> None:
    runs = [ImportRecord(origin="x", id=str(number), run=rk.TraceRun(id=str(number))) for number in range(4)]
    over = Transport(langfuse.account_of({"LANGFUSE_PUBLIC_KEY": "p", "LANGFUSE_SECRET_KEY": "s"}))

    found = list(newest([[runs[0]], [], [runs[1], runs[2]], [runs[3]]], lambda one: one, Query(limit=3), over))

    assert [record.id for record in found if record.run] == ["0", "1", "2"]
    assert "more than 3 such runs" in found[-1].notes[0]


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b'{"a": NaN, "b": [-Infinity, 1e999, 1.5]}', {"a": "nan", "b": ["-inf", "inf", 1.5]}),
        (b'["half \\ud83d", "\\ud83d\\ude00", NaN]', ["half \ufffd", "\U0001f600", "nan"]),
        (b"[12345678901234567890123]", [12345678901234567890123]),
    ],
)
def test_what_no_file_could_hold_is_mended_and_the_rest_is_as_it_was(body: bytes, value: Any) -> None:
    assert decode_lenient(body) == value


def test_what_a_service_gave_names_a_place_by_its_path() -> None:
    source = FetchedSource({"a": [1]}, "langfuse x")

    assert (source.first, json.loads(source.text), source.is_lines) == (({"a": [1]},), {"a": [1]}, False)
    assert str(source.error("wrong", ("a", 0))) == "langfuse x: wrong (at $.a[0])"


@settings(max_examples=examples(60))
@given(data=st.data())
def test_whatever_the_service_says_gives_runs_that_can_be_kept_or_a_clear_error(
    kept: Kept, store: rk.Store, data: st.DataObject
) -> None:
    if kept.name == "langfuse":
        kept.fake.versions = data.draw(st.sampled_from([(3,), (4,)]))
    elif kept.name == "mlflow":
        kept.fake.version, kept.fake.in_files = data.draw(st.sampled_from([(3, False), (3, True), (2, True)]))
    home = {"langfuse": langfuse, "phoenix": phoenix, "mlflow": mlflow}[kept.name]
    account = home.account_of()
    transport = garbling(data)(account, 20)
    api = {
        "langfuse": langfuse.LangfuseApi,
        "phoenix": phoenix.PhoenixApi,
        "mlflow": mlflow.MlflowApi,
    }[kept.name](account, transport)
    source = Service(api, transport)
    by_project = data.draw(st.booleans())
    told = ""
    records: list[ImportRecord] = []

    try:
        records = list(
            source.runs(Query(project="support", status=Status.ALL))
            if by_project
            else source.fetch(RUNS[kept.name], "support")
        )
    except ReplayKitError as error:
        told = str(error)

    assert KEYS[kept.name] not in told
    assert all(record.run is not None or record.problem or record.notes for record in records)
    for run in (record.run for record in records if record.run is not None):
        with suppress(UsageError):  # it says why not
            store_run(store, run)
            assert store.load(run.id).events == run.events


def test_a_client_says_what_is_asked_and_nothing_of_what_is_not() -> None:
    asked: list[ServiceRequest] = []

    def send(request: ServiceRequest) -> ServiceReply:
        asked.append(request)
        return ServiceReply(200, b"{}")

    account = langfuse.account_of({"LANGFUSE_PUBLIC_KEY": "p", "LANGFUSE_SECRET_KEY": "s"})
    client = ServiceClient(account, send)
    client.get("/a", one=1, none=None, many=["x", "y z"])
    client.get("/b")
    client.post("/c", {"d": 1})

    assert [request.url.removeprefix(account.root) for request in asked] == ["/a?one=1&many=x&many=y+z", "/b", "/c"]
    assert (asked[2].method, asked[2].body) == ("POST", b'{"d":1}')
    with pytest.raises(FetchFailed, match="answered 404"):
        client.json(ServiceReply(404, b"gone"))
