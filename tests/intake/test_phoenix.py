"""Traces that Phoenix keeps: those of a project, or some of it by id, with what was said of them afterwards."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.formats.story import check_story
from tests.phoenix_server import KEY, FakePhoenix, annotation, phoenix_server, set_account, spans_of
from tests.service_server import Said

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.formats.core.labels import labels_of
from replaykit.intake.services.phoenix import account_of

Run = Callable[..., Any]
STORY = "0f02ddd3a5bfbf169e32aca4e2c66162"
FAILED = "00000000000000000000000000000bad"
ALL = ("import", "phoenix", "--project", "support")
ONE = (*ALL, "--trace", STORY)


@pytest.fixture
def phoenix(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakePhoenix]:
    with phoenix_server() as fake:
        set_account(fake, monkeypatch)
        fake.spans = spans_of("openai_chat_agent") + failed()
        yield fake


def failed(trace_id: str = FAILED) -> list[dict[str, Any]]:
    """The story of an agent that did not get over its failure."""
    spans = spans_of("openai_chat_agent", trace_id)
    (root,) = (span for span in spans if span["parent_id"] is None)
    root |= {"status_code": "ERROR", "status_message": "TimeoutError: payment gateway timed out after 30s"}
    return spans


def kept(run_id: str = STORY) -> rk.TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


@pytest.mark.parametrize("is_old", [False, True])
def test_a_trace_comes_in_whole_from_every_page(replaykit: Run, phoenix: FakePhoenix, is_old: bool) -> None:
    phoenix.page, phoenix.is_old = 3, is_old

    ran = replaykit(*ONE, "--json")

    assert (ran.code, ran.results) == (0, {STORY: "imported"})
    check_story(kept())
    assert kept().origin.format == "phoenix"
    pages = [seen.asks("cursor") for seen in phoenix.seen if seen.route == "/v1/projects/support/spans"]
    assert pages[:3] == [None, "3", "6"]


@pytest.mark.parametrize("is_old", [False, True])
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), [FAILED]),
        (("--status", "warning"), [STORY]),
        (("--status", "all"), [FAILED, STORY]),
        (("--status", "all", "--limit", "1"), [FAILED]),
        (("--since", "2026-11-01"), [FAILED]),
        (("--since", "2036-01-01"), []),
        (("--min-latency-ms", "3600000"), []),
        (("--status", "all", "--filter", "status=success"), [STORY]),
    ],
)
def test_the_traces_of_a_project_that_are_wanted_come_in_newest_first(
    replaykit: Run, phoenix: FakePhoenix, is_old: bool, options: tuple[str, ...], wanted: list[str]
) -> None:
    phoenix.is_old = is_old

    ran = replaykit(*ALL, "--json", *options)

    found = list(ran.results) if ran.code != 5 else []
    assert (ran.code, found) == (0 if wanted else 5, wanted)
    assert ("raise the limit" in ran.err) == ("--limit" in options)


@pytest.mark.parametrize("of", ["span", "trace"])
def test_an_annotation_that_says_failure_makes_the_run_one(replaykit: Run, phoenix: FakePhoenix, of: str) -> None:
    phoenix.page = 1
    root = next(span for span in phoenix.spans if span["parent_id"] is None)
    target = STORY if of == "trace" else root["context"]["span_id"]
    said = {"label": "incorrect", "score": 0.0, "explanation": "made up"}
    phoenix.annotations = [annotation(of, target, "tone", score=1.0), annotation(of, target, "correctness", **said)]

    replaykit(*ONE)

    assert kept().status == "error"
    labels = {label.name: (label.failed, label.why) for label in labels_of(kept())}
    assert labels == {"tone": (False, ""), "correctness": (True, "made up")}


def test_an_annotation_of_any_value_is_a_label_and_counts_once(replaykit: Run, phoenix: FakePhoenix) -> None:
    said = annotation("trace", STORY, "topics", label=["refunds", {"deep": 1}])
    phoenix.annotations = [said, said]

    ran = replaykit(*ONE)

    assert ran.code == 0
    assert [label.value for label in labels_of(kept())] == [["refunds", {"deep": 1}]]


def test_annotations_that_cannot_be_fetched_are_told_and_the_trace_comes_in(
    replaykit: Run, phoenix: FakePhoenix
) -> None:
    phoenix.said = lambda seen: Said(422, b"no") if seen.route.endswith("span_annotations") else None

    ran = replaykit(*ONE)

    assert ran.code == 0
    assert "the annotations of its spans could not be fetched" in ran.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--project", "nope"), "Phoenix has no project 'nope'"),
        (("--project", "../secrets"), "Phoenix has no project '../secrets'"),
        (("--project", "support", "--trace", "nope"), "Phoenix has no trace 'nope' in the project 'support'"),
        (("--trace", STORY), "which project?"),
    ],
)
def test_a_wrong_call_is_told_and_makes_no_store(
    replaykit: Run, phoenix: FakePhoenix, arguments: tuple[str, ...], said: str
) -> None:
    ran = replaykit("import", "phoenix", *arguments)

    assert (ran.code, said in ran.err) == (2, True)
    assert not Path(".replaykit").exists()


def test_the_project_may_be_named_by_the_environment(
    replaykit: Run, phoenix: FakePhoenix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_PROJECT_NAME", "support")

    assert replaykit("import", "phoenix", "--json").results == {FAILED: "imported"}


def test_a_refused_key_is_told_with_what_to_look_at(
    replaykit: Run, phoenix: FakePhoenix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PHOENIX_API_KEY", "of-somebody-else")

    ran = replaykit(*ALL)

    assert (ran.code, "Check PHOENIX_API_KEY" in ran.err, "somebody-else" in ran.err) == (3, True, False)


@pytest.mark.parametrize(
    ("environment", "root"),
    [
        ({}, "http://127.0.0.1:6006"),
        ({"PHOENIX_COLLECTOR_ENDPOINT": "https://p.example/s/me/v1/traces"}, "https://p.example/s/me"),
        ({"PHOENIX_BASE_URL": "https://p.example", "PHOENIX_COLLECTOR_ENDPOINT": "http://c:6006"}, "http://c:6006"),
        ({"PHOENIX_ENDPOINT": "https://e.example", "PHOENIX_BASE_URL": "https://p.example"}, "https://e.example"),
        ({"PHOENIX_HOST": "0.0.0.0", "PHOENIX_PORT": "7007"}, "http://127.0.0.1:7007"),
        ({"PHOENIX_HOST": "phoenix"}, "http://phoenix:6006"),
        ({"PHOENIX_HOST": "phoenix:80"}, "http://phoenix:80"),
        ({"PHOENIX_HOST": "[::1]"}, "http://[::1]:6006"),
    ],
)
def test_the_address_is_the_one_that_the_environment_names(environment: dict[str, str], root: str) -> None:
    assert account_of(environment).root == root


def test_headers_of_ones_own_go_with_every_request_and_are_hidden() -> None:
    headers = "api_key=s%20cret-key,authorization=Bearer other-token"
    account = account_of({"PHOENIX_API_KEY": KEY, "PHOENIX_CLIENT_HEADERS": headers})

    assert account.headers == (("api_key", "s cret-key"), ("authorization", "Bearer other-token"))
    assert account.hide("s cret-key other-token") == "${PHOENIX_CLIENT_HEADERS} ${PHOENIX_CLIENT_HEADERS}"


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"PHOENIX_API_KEY": KEY, "PHOENIX_BASE_URL": "http://p.example"}, "Give an https:// address"),
        ({"PHOENIX_API_KEY": KEY, "PHOENIX_HOST": "phoenix"}, "Give an https:// address"),
        ({"PHOENIX_BASE_URL": "p.example"}, "Give an https:// address"),
        ({"PHOENIX_CLIENT_HEADERS": f"a b={KEY}"}, "Write name=value"),
        ({"PHOENIX_CLIENT_HEADERS": KEY}, "Write name=value"),
        ({"PHOENIX_CLIENT_HEADERS": f"a={KEY}%0d%0ab: c"}, "that headers cannot hold"),
    ],
)
def test_what_is_wrong_in_the_environment_is_told(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        account_of(environment)

    assert said in str(caught.value)
    assert KEY not in str(caught.value)
