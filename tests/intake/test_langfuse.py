"""Traces that Langfuse keeps: found by id or in a project, whole, in the words of each of its versions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.langfuse_server import PUBLIC, SECRET, FakeLangfuse, incident, langfuse_server, score, set_account
from tests.service_server import Said

import replaykit as rk
from replaykit.cases.session import load_session
from replaykit.errors import UsageError
from replaykit.formats.core.labels import labels_of
from replaykit.intake.services.langfuse import account_of

Run = Callable[..., Any]
ID = "4bf92f3577b34da6"
ONE = ("import", "langfuse", "--trace", ID)
ALL = ("import", "langfuse", "--all", "--json")
VERSIONS = pytest.mark.parametrize("versions", [(3,), (4,), (3, 4)])


@pytest.fixture
def langfuse(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLangfuse]:
    with langfuse_server() as fake:
        set_account(fake, monkeypatch)
        fake.traces = [incident()]
        yield fake


def kept(run_id: str = ID) -> rk.TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


@VERSIONS
def test_a_trace_comes_in_whole(replaykit: Run, langfuse: FakeLangfuse, versions: tuple[int, ...]) -> None:
    langfuse.versions, langfuse.page = versions, 2

    ran = replaykit(*ONE, "--json")

    assert (ran.code, ran.results) == (0, {ID: "imported"})
    run = kept()
    assert (run.name, run.status, run.origin.format) == ("agent", "error", "langfuse")
    assert "no figure" in str(run.error)
    assert run.input == "What was ACME Corp's Q3 revenue?"
    (tool,) = run.tool_calls
    assert (tool.name, tool.arguments, tool.duration_s) == ("market_data_api", {"company": "ACME"}, 3.0)
    assert tool.error is not None
    assert "no answer in 30 s" in tool.error.message
    (model,) = run.llm_calls
    assert (model.name, model.usage and model.usage.input_tokens) == ("gpt-4o", 120)
    assert run.tags == ("prod",)
    assert len([seen for seen in langfuse.seen if seen.route.endswith("/v2/observations")]) == 2 * (versions == (4,))


def test_both_versions_give_the_same_run(replaykit: Run, langfuse: FakeLangfuse) -> None:
    replaykit(*ONE)

    langfuse.versions = (4,)
    ran = replaykit(*ONE, "--store", "second.db")

    assert ran.code == 0
    with rk.Store.open("second.db") as store:
        assert store.load(ID).events == kept().events


@VERSIONS
def test_a_score_that_says_failure_makes_the_run_one(
    replaykit: Run, langfuse: FakeLangfuse, versions: tuple[int, ...]
) -> None:
    scores = [score(ID, "correct", False if 4 in versions else 0, "BOOLEAN")]
    langfuse.traces, langfuse.versions = [incident(failed=False, scores=scores)], versions

    ran = replaykit(*ONE)

    assert (ran.code, kept().status) == (0, "error")
    (label,) = labels_of(kept())
    assert (label.name, label.failed, label.why) == ("correct", True, "made up")


def test_scores_that_cannot_be_fetched_are_told_and_the_trace_comes_in(replaykit: Run, langfuse: FakeLangfuse) -> None:
    langfuse.versions = (4,)
    langfuse.said = lambda seen: Said(400, b"no") if seen.route.endswith("/scores") else None

    ran = replaykit(*ONE)

    assert ran.code == 0
    assert f"trace {ID}: its scores could not be fetched" in ran.err


@VERSIONS
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), ["late", ID]),
        (("--status", "warning"), ["troubled"]),
        (("--status", "all"), ["late", ID, "troubled", "well"]),
        (("--status", "all", "--filter", "status=error"), ["late", ID]),
        (("--limit", "1"), ["late"]),
        (("--since", "24h"), []),
        (("--since", "2001-01-01"), ["late", ID]),
        (("--min-latency-ms", "6000"), ["late", ID]),
        (("--min-latency-ms", "6001"), []),
    ],
)
def test_the_traces_of_the_project_that_are_wanted_come_in_newest_first(
    replaykit: Run, langfuse: FakeLangfuse, versions: tuple[int, ...], options: tuple[str, ...], wanted: list[str]
) -> None:
    well = incident("well", failed=False, after_s=-30)
    well["observations"] = well["observations"][:2]
    langfuse.traces += [incident("late", after_s=60), incident("troubled", failed=False, after_s=-20), well]
    langfuse.versions, langfuse.page = versions, 1

    ran = replaykit(*ALL, *options)

    found = list(ran.results) if ran.code != 5 else []
    assert (ran.code, found) == (0 if wanted else 5, wanted)
    assert ("raise the limit" in ran.err) == ("--limit" in options)


def test_the_server_is_asked_for_traces_in_which_something_failed_and_for_no_others(
    replaykit: Run, langfuse: FakeLangfuse
) -> None:
    langfuse.traces += [incident("well", failed=False)]
    langfuse.traces[-1]["observations"] = langfuse.traces[-1]["observations"][:2]

    replaykit(*ALL)

    assert langfuse.routes == ["/api/public/traces", f"/api/public/traces/{ID}"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no traces selected"),
        (("--trace", "nope"), "Langfuse has no trace 'nope'"),
        (("--trace", "../projects?x"), "Langfuse has no trace '../projects?x'"),
        (("--project", "--since", "lst_7_days"), "did you mean 'last_7_days'?"),
    ],
)
@VERSIONS
def test_a_wrong_call_is_told_and_makes_no_store(
    replaykit: Run, langfuse: FakeLangfuse, arguments: tuple[str, ...], said: str, versions: tuple[int, ...]
) -> None:
    langfuse.versions = versions

    ran = replaykit("import", "langfuse", *arguments)

    assert (ran.code, said in ran.err) == (2, True)
    assert not Path(".replaykit").exists()


def test_several_are_named_and_one_that_is_not_there_stops_no_other(replaykit: Run, langfuse: FakeLangfuse) -> None:
    ran = replaykit(*ONE, "--trace", "nowhere", "--json")

    assert (ran.code, ran.results) == (1, {ID: "imported", "nowhere": "failed"})


def test_a_session_holds_what_was_really_seen(replaykit: Run, langfuse: FakeLangfuse) -> None:
    assert replaykit(*ONE, "-o", "one.yaml", "--contract", "Finance").code == 0

    session = load_session(Path("one.yaml"))

    assert (session.source, session.contract) == ("langfuse", "Finance")
    assert [call.name for call in session.calls] == ["market_data_api"]


def test_a_refused_key_is_told_with_what_to_look_at(
    replaykit: Run, langfuse: FakeLangfuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGFUSE_SECRET_KEY", "sk-lf-of-another-region")

    ran = replaykit(*ALL)

    assert (ran.code, len(langfuse.seen)) == (3, 1)
    assert "refused the key (401)" in ran.err
    assert "Check LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY" in ran.err
    assert "another-region" not in ran.err


def test_nothing_of_the_keys_is_left_behind(replaykit: Run, langfuse: FakeLangfuse) -> None:
    token = account_of({"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}).headers[0][1].split()[1]
    langfuse.said = lambda _seen: Said(418, {"detail": f"bad {SECRET} in {token}"})

    ran = replaykit("--debug", *ONE)

    assert ran.code == 3
    assert "bad ${LANGFUSE_SECRET_KEY} in ${LANGFUSE_SECRET_KEY}" in ran.err
    assert not [secret for secret in (SECRET, token) if secret in ran.err + ran.out]


def test_the_account_is_the_one_that_the_environment_names() -> None:
    keys = {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET}

    assert account_of(keys).root == "https://cloud.langfuse.com"
    older = {**keys, "LANGFUSE_HOST": "https://us.example/"}
    assert account_of(older).root == "https://us.example"
    assert account_of({**older, "LANGFUSE_BASE_URL": "https://eu.example/api/public"}).root == "https://eu.example"
    assert SECRET not in repr(account_of(keys))


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "Set LANGFUSE_PUBLIC_KEY and LANGFUSE_SECRET_KEY."),
        ({"LANGFUSE_PUBLIC_KEY": PUBLIC}, "Set LANGFUSE_SECRET_KEY."),
        (
            {"LANGFUSE_PUBLIC_KEY": PUBLIC, "LANGFUSE_SECRET_KEY": SECRET, "LANGFUSE_HOST": "http://lf.example"},
            "Give an https:// address",
        ),
    ],
)
def test_what_is_missing_in_the_environment_is_told(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        account_of(environment)

    assert said in str(caught.value)
    assert SECRET not in str(caught.value)
