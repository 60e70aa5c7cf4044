"""Traces that a tracking server of MLflow keeps: found by id or in an experiment, wherever their spans lie."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.formats.samples import sample
from tests.formats.story import check_story
from tests.mlflow_server import TOKEN, FakeMlflow, any_value, mlflow_server, set_account, trace_of
from tests.service_server import Said

import replaykit as rk
from replaykit.errors import UsageError
from replaykit.formats.core.labels import labels_of
from replaykit.formats.core.registry import IMPORTERS, read_all
from replaykit.formats.core.source import read_source
from replaykit.intake.services.mlflow import account_of, file_of, info_of

Run = Callable[..., Any]
STORY = "tr-8587b4f292f32356af1ee984320a878b"
ONE = ("import", "mlflow", "--trace", STORY)
ALL = ("import", "mlflow", "--experiment", "support", "--json")
SERVERS = pytest.mark.parametrize(("version", "in_files"), [(3, False), (3, True), (2, True)])


@pytest.fixture
def mlflow(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMlflow]:
    with mlflow_server() as fake:
        set_account(fake, monkeypatch)
        fake.traces = [trace_of(), trace_of("trace_error", "tr-failed")]
        yield fake


def kept(run_id: str = STORY) -> rk.TraceRun:
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        return store.load(run_id)


def read(name: str) -> rk.TraceRun:
    """The run of the sample itself."""
    (run,) = read_all(IMPORTERS.get("mlflow"), read_source(sample(f"mlflow/{name}.json"))).runs
    return run


@SERVERS
def test_a_trace_comes_in_as_its_file_does(replaykit: Run, mlflow: FakeMlflow, version: int, in_files: bool) -> None:
    mlflow.version, mlflow.in_files = version, in_files

    ran = replaykit(*ONE, "--json")

    assert (ran.code, ran.results) == (0, {STORY: "imported"})
    check_story(kept())
    told = read("trace_to_json")
    assert [(event.name, event.at) for event in kept().calls] == [(event.name, event.at) for event in told.calls]
    assert (kept().name, kept().input, kept().output) == (told.name, told.input, told.output)
    assert [call.arguments for call in kept().calls] == [call.arguments for call in told.calls]
    assert [call.result for call in kept().calls] == [call.result for call in told.calls]


@SERVERS
@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ((), ["tr-failed"]),
        (("--status", "warning"), [STORY]),
        (("--status", "all"), ["tr-failed", STORY]),
        (("--status", "all", "--limit", "1"), ["tr-failed"]),
        (("--since", "2026-11-15T18:37:12"), ["tr-failed"]),
        (("--status", "all", "--since", "2026-11-15T18:37:12"), ["tr-failed"]),
        (("--since", "2036-01-01"), []),
        (("--status", "all", "--min-latency-ms", "400"), [STORY]),
    ],
)
def test_the_traces_of_an_experiment_that_are_wanted_come_in_newest_first(
    replaykit: Run, mlflow: FakeMlflow, version: int, in_files: bool, options: tuple[str, ...], wanted: list[str]
) -> None:
    mlflow.version, mlflow.in_files, mlflow.page = version, in_files, 1

    ran = replaykit(*ALL, *options)

    found = list(ran.results) if ran.code != 5 else []
    assert (ran.code, found) == (0 if wanted else 5, wanted)
    assert ("raise the limit" in ran.err) == ("--limit" in options)


def test_an_experiment_is_named_by_its_id_as_well(replaykit: Run, mlflow: FakeMlflow) -> None:
    ran = replaykit("import", "mlflow", "--experiment", "1", "--json")

    assert (ran.code, ran.results) == (0, {"tr-failed": "imported"})


def test_a_trace_that_goes_on_is_passed_over(replaykit: Run, mlflow: FakeMlflow) -> None:
    mlflow.traces.append(trace_of("trace_error", "tr-going", state="IN_PROGRESS"))

    ran = replaykit(*ALL, "--status", "all")

    assert list(ran.results) == ["tr-failed", STORY]
    assert "run tr-going has not ended: passed over" in ran.err


def test_an_assessment_that_says_failure_makes_the_run_one(replaykit: Run, mlflow: FakeMlflow) -> None:
    said = {
        "assessment_id": "a-1",
        "assessment_name": "correctness",
        "trace_id": STORY,
        "source": {"source_type": "HUMAN", "source_id": "me"},
        "feedback": {"value": False},
        "rationale": "made up",
        "valid": True,
    }
    mlflow.traces[0]["info"]["assessments"] = [said]

    replaykit(*ONE)

    assert kept().status == "error"
    (label,) = labels_of(kept())
    assert (label.name, label.failed, label.why) == ("correctness", True, "made up")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "no traces selected"),
        (("--trace", "tr-nope"), "MLflow has no trace 'tr-nope'"),
        (("--trace", "../experiments/list"), "MLflow has no trace '../experiments/list'"),
        (("--experiment", "nope"), "MLflow has no experiment 'nope'"),
        (("--experiment", "77"), "MLflow has no experiment '77'"),
    ],
)
@SERVERS
def test_a_wrong_call_is_told_and_makes_no_store(
    replaykit: Run, mlflow: FakeMlflow, arguments: tuple[str, ...], said: str, version: int, in_files: bool
) -> None:
    mlflow.version, mlflow.in_files = version, in_files

    ran = replaykit("import", "mlflow", *arguments)

    assert (ran.code, said in ran.err) == (2, True)
    assert not Path(".replaykit").exists()


def test_a_trace_whose_spans_are_gone_is_told(replaykit: Run, mlflow: FakeMlflow) -> None:
    mlflow.in_files = True
    mlflow.said = lambda seen: Said(404, b"gone") if "artifact" in seen.path else None

    ran = replaykit(*ONE)

    assert ran.code == 3
    assert f"MLflow has the trace {STORY!r}, but not its spans" in ran.err


def test_a_name_and_a_password_go_before_a_token(
    replaykit: Run, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "ann")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "pa:ßword")
    mlflow.authorization = "Basic YW5uOnBhOsOfd29yZA=="

    assert replaykit(*ONE).code == 0


def test_a_refused_key_is_told_with_what_to_look_at(
    replaykit: Run, mlflow: FakeMlflow, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_TOKEN", "of-somebody-else")

    ran = replaykit(*ONE)

    assert (ran.code, "refused the key (401)" in ran.err, "somebody-else" in ran.err) == (3, True, False)


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, "MLFLOW_TRACKING_URI is not set"),
        ({"MLFLOW_TRACKING_URI": "sqlite:///mlflow.db"}, "MLFLOW_TRACKING_URI=http://127.0.0.1:5000"),
        ({"MLFLOW_TRACKING_URI": "databricks"}, "asked over HTTP"),
        ({"MLFLOW_TRACKING_URI": "http://mlflow.example", "MLFLOW_TRACKING_TOKEN": TOKEN}, "Give an https:// address"),
        (
            {"MLFLOW_TRACKING_URI": "https://mlflow.example", "MLFLOW_TRACKING_TOKEN": "a\nb"},
            "that headers cannot hold",
        ),
        ({"MLFLOW_TRACKING_URI": f"https://me:{TOKEN}@mlflow.example"}, "nothing else"),
    ],
)
def test_what_is_wrong_in_the_environment_is_told(environment: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        account_of(environment)

    assert said in str(caught.value)
    assert TOKEN not in str(caught.value)


def test_a_server_without_a_key_may_be_asked_in_the_clear() -> None:
    account = account_of({"MLFLOW_TRACKING_URI": "http://mlflow.internal:5000/prefix/"})

    assert (account.root, account.headers) == ("http://mlflow.internal:5000/prefix", ())


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(value=JSON)
def test_a_value_of_open_telemetry_says_what_it_was_made_of(value: Any) -> None:
    span = {"span_id": "YQ==", "attributes": [{"key": "held", "value": any_value(value)}]}

    (made,) = file_of({"trace_info": {}, "spans": [span]})["data"]["spans"]

    assert json.loads(made["attributes"]["held"]) == value


@given(trace=st.dictionaries(st.sampled_from(["trace_info", "spans"]), JSON | st.lists(JSON)))
def test_whatever_is_given_as_a_trace_has_the_shape_of_a_file(trace: dict[str, Any]) -> None:
    assert set(file_of(trace)) == {"info", "data"}


@pytest.mark.parametrize(
    ("said", "ms"), [("0.444s", 444), ("12s", 12_000), ("soon", None), ("1e999s", None), (3, None)]
)
def test_a_time_of_protobuf_is_read_where_it_is_one(said: Any, ms: int | None) -> None:
    assert info_of({"execution_duration": said}).get("execution_duration_ms") == ms
