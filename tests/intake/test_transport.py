"""Requests to LangSmith: bounded in time, size and number, tried again where that helps, and the key stays home."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.intake.garbled_responses import garbling
from tests.langsmith_server import KEY, FakeLangSmith, Said, Seen, incident, langsmith_server
from tests.matrix import examples

import replaykit as rk
from replaykit.errors import FetchFailed, ReplayKitError, UsageError
from replaykit.intake.entries import ImportRecord
from replaykit.intake.services.client import ServiceRequest
from replaykit.intake.services.langsmith import LangSmith, Query
from replaykit.intake.services.langsmith_api import LangSmithAccount, langsmith_account
from replaykit.intake.services.transport import ATTEMPTS, Transport
from replaykit.intake.session_files import text_of
from replaykit.intake.store_import import store_run

Run = Callable[..., Any]
QUERY = Query(project="my-production-agent")


def account(fake: FakeLangSmith) -> LangSmithAccount:
    return langsmith_account(root=fake.url, key=KEY)


def pausing(fake: FakeLangSmith, pauses: list[float], **more: Any) -> Transport:
    return Transport(account(fake), pause=pauses.append, **more)


def asked(fake: FakeLangSmith, path: str = "/api/v1/runs/abc123def456") -> ServiceRequest:
    return ServiceRequest(method="GET", url=fake.url + path)


def in_turn(*answers: Said | None) -> Callable[[Seen], Said | None]:
    """These answers, one after another; then the usual ones."""
    waiting = itertools.chain(answers, itertools.repeat(None))
    return lambda _seen: next(waiting)


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_a_server_that_is_busy_is_asked_again_when_it_says(langsmith: FakeLangSmith, status: int) -> None:
    langsmith.said = in_turn(Said(status, b"", {"retry-after": "7"}), Said(status, b""))
    pauses: list[float] = []

    reply = pausing(langsmith, pauses)(asked(langsmith))

    assert (reply.status, json.loads(reply.body)["id"]) == (200, "abc123def456")
    assert pauses == [7.0, 0.0]


def test_without_a_word_of_the_server_the_pauses_grow(
    langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("replaykit.intake.services.transport.FIRST_PAUSE_S", 0.5)
    langsmith.said = lambda _seen: Said(503, b"", {"retry-after": "soon"})
    pauses: list[float] = []

    with pytest.raises(FetchFailed, match="answered 503 each time"):
        pausing(langsmith, pauses)(asked(langsmith))

    assert pauses == [0.5, 1.0, 2.0, 4.0]
    assert len(langsmith.seen) == ATTEMPTS


@pytest.mark.parametrize("far", ["3600", "9" * 20, "Fri, 31 Dec 9999 23:59:59 GMT"])
def test_a_server_that_asks_for_more_patience_than_there_is_is_an_error(langsmith: FakeLangSmith, far: str) -> None:
    langsmith.said = lambda _seen: Said(429, b"", {"retry-after": far})
    pauses: list[float] = []

    with pytest.raises(FetchFailed, match="answered 429 each time, and asks to wait"):
        pausing(langsmith, pauses)(asked(langsmith))

    assert (pauses, len(langsmith.seen)) == ([], 1)


def test_a_time_that_has_passed_is_no_pause(langsmith: FakeLangSmith) -> None:
    langsmith.said = in_turn(Said(429, b"", {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}))
    pauses: list[float] = []

    assert pausing(langsmith, pauses)(asked(langsmith)).status == 200
    assert pauses == [0.0]


def test_the_time_of_the_whole_import_holds(langsmith: FakeLangSmith) -> None:
    clock = iter([0.0, 1.0, 1.0, 11.0, 11.0])
    langsmith.said = lambda _seen: Said(503, b"", {"retry-after": "1"})

    with pytest.raises(FetchFailed, match="within 10 s"):
        Transport(account(langsmith), 10, pause=lambda _: None, clock=lambda: next(clock))(asked(langsmith))


def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(langsmith: FakeLangSmith) -> None:
    with langsmith_server() as other:
        langsmith.said = lambda seen: Said(307, b"", {"location": f"{other.url}{seen.path}"})

        with pytest.raises(ReplayKitError, match="answered 307"):
            list(LangSmith(account(langsmith)).runs(QUERY))

        assert not other.seen


def test_a_payload_that_leads_elsewhere_by_a_redirect_is_not_fetched(langsmith: FakeLangSmith) -> None:
    langsmith.versions = (1,)
    langsmith.runs[0] |= {"inputs": None, "inputs_s3_urls": {"ROOT": {"presigned_url": "/blob"}}}
    with langsmith_server() as other:
        langsmith.said = lambda seen: Said(302, b"", {"location": other.url}) if seen.path == "/blob" else None

        record = LangSmith(account(langsmith)).run("abc123def456")

        assert "answered 302" in record.notes[0]
        assert not other.seen


def test_an_answer_that_drips_is_given_up(langsmith: FakeLangSmith) -> None:
    stop = threading.Event()

    def drops() -> Iterator[bytes]:
        while not stop.wait(0.02):
            yield b" "

    langsmith.said = lambda _seen: Said(200, drops(), {"content-length": "1000000"})
    try:
        with pytest.raises(FetchFailed, match="gave no answer within"):
            LangSmith(account(langsmith), timeout_s=0.3).run("abc123def456")
    finally:
        stop.set()


def test_an_answer_that_breaks_off_is_asked_for_again_and_then_told(langsmith: FakeLangSmith) -> None:
    langsmith.said = lambda _seen: Said(200, iter([b'{"id": "abc']), {"content-length": "1000"})

    with pytest.raises(FetchFailed, match="broke off"):
        LangSmith(account(langsmith)).run("abc123def456")

    assert len(langsmith.seen) == ATTEMPTS


def test_an_answer_that_is_too_large_is_refused(langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.candidates.http_client.MAX_OUTPUT_BYTES", 10_000)
    langsmith.said = lambda _seen: Said(200, b"[" + b" " * 20_000 + b"]")

    with pytest.raises(FetchFailed, match="more than 10,000 bytes"):
        LangSmith(account(langsmith)).run("abc123def456")


def test_a_trace_that_is_too_large_is_one_failure(langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.intake.services.client.MAX_TRACE_BYTES", 3_000)
    langsmith.page = 2
    langsmith.runs += incident("small")[:1]

    records = {record.id: record for record in LangSmith(account(langsmith)).runs(QUERY)}

    assert "more than 3,000 bytes for one trace" in records["abc123def456"].problem
    assert records["small"].run is not None


@pytest.mark.parametrize("version", [1, 2])
def test_pages_that_lead_in_a_circle_are_an_error(langsmith: FakeLangSmith, version: int) -> None:
    langsmith.versions = (version,) if version == 1 else (1, 2)
    page = {"runs": [], "cursors": {"next": "a"}} if version == 1 else {"items": [], "next_cursor": "a"}
    langsmith.said = lambda seen: Said(200, page) if seen.path == f"/api/v{version}/runs/query" else None

    with pytest.raises(FetchFailed, match="leads from a page back to it"):
        list(LangSmith(account(langsmith)).runs(QUERY))

    assert len([seen for seen in langsmith.seen if seen.path == f"/api/v{version}/runs/query"]) == 2


def test_pages_without_end_are_an_error(langsmith: FakeLangSmith, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.intake.services.client.MAX_PAGES", 20)
    numbers = itertools.count()
    langsmith.said = lambda seen: (
        Said(200, {"items": [], "next_cursor": str(next(numbers))}) if seen.path.endswith("/v2/runs/query") else None
    )

    with pytest.raises(FetchFailed, match="more than 20 pages"):
        list(LangSmith(account(langsmith)).runs(QUERY))


def test_after_a_few_traces_in_a_row_that_fail_nobody_goes_on(langsmith: FakeLangSmith) -> None:
    langsmith.runs = [run for number in range(9) for run in incident(f"run-{number}")]
    langsmith.said = lambda seen: Said(400, b"no") if seen.body and "trace_id" in seen.body else None
    records = []

    with pytest.raises(FetchFailed, match="was stopped"):
        for record in LangSmith(account(langsmith)).runs(QUERY):
            records.append(record)

    assert [record.problem.rpartition(" ")[2] for record in records] == ["no"] * 3


def test_what_came_in_before_it_failed_is_told(replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.runs = [run for number in range(9) for run in incident(f"run-{number}")]
    failing = ("run-4", "run-5", "run-6")
    langsmith.said = lambda seen: Said(400, b"") if seen.body and seen.body.get("trace_id") in failing else None

    ran = replaykit("import", "langsmith", "--project", "my-production-agent", "--json")

    assert (ran.code, [*ran.results.values()]) == (1, ["imported"] * 4 + ["failed"] * 4)
    assert "was stopped" in ran.err


def test_the_api_that_is_not_there_is_told(replaykit: Run, langsmith: FakeLangSmith) -> None:
    langsmith.said = lambda _seen: Said(404, b"<html>\x1b[31mnot here</html>")

    ran = replaykit("import", "langsmith", "--project", "my-production-agent")

    assert (ran.code, "\x1b" in ran.err) == (3, False)
    assert "answered 404: <html>" in ran.err
    assert "Check LANGSMITH_ENDPOINT." in ran.err


@settings(max_examples=examples(150))
@given(data=st.data())
def test_whatever_the_server_says_gives_runs_that_can_be_kept_or_a_clear_error(
    langsmith: FakeLangSmith, store: rk.Store, data: st.DataObject
) -> None:
    langsmith.versions = data.draw(st.sampled_from([(1,), (1, 2)]))
    source = LangSmith(account(langsmith), 20, garbling(data))
    by_project = data.draw(st.booleans())
    told = ""
    records: list[ImportRecord] = []

    try:
        records = list(source.runs(QUERY)) if by_project else [source.run("abc123def456")]
    except ReplayKitError as error:
        told = str(error)

    assert KEY not in told
    assert all(record.run is not None or record.problem or record.notes for record in records)
    for run in (record.run for record in records if record.run is not None):
        with suppress(UsageError):  # it says why not
            store_run(store, run)
            assert store.load(run.id).events == run.events
            text_of(run, Path("s.yaml"), "C")
