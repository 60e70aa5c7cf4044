"""A trace of OpenTelemetry goes the whole way: file, case, replay, verdict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import agent, document, tool
from tests.formats.samples import sample

import replaykit as rk
from replaykit.cli import run


@rk.tool
def get_order(order_id: str) -> dict[str, object]:
    raise AssertionError("called for real")


@rk.tool
def get_user(user_id: str) -> dict[str, object]:
    raise AssertionError("called for real")


@rk.tool
def refund_order(order_id: str, amount: float) -> str:
    raise AssertionError("called for real")


def broken(_question: str) -> str:
    assert get_order(order_id="W123")["total"] == 59.9
    get_user(user_id="u9")
    return refund_order(order_id="W123", amount=59.9)


def mended(question: str) -> str:
    try:
        return broken(question)
    except TimeoutError as error:
        return f"It did not work: {error}"


@pytest.mark.parametrize("name", ["openinference/langgraph_agent_tool_error", "pydantic_ai/errors_v2"])
def test_a_failed_trace_is_a_case_that_tells_the_broken_agent_from_the_mended_one(name: str) -> None:
    which = ["--run", "e617ad8ed9410acd3a7e84c202e6ba47"] if "pydantic" in name else []
    assert run(["scaffold", str(sample(f"{name}.otlp.json")), "--out", "cases/refund", *which]) == 0
    assert run(["lint", "cases/refund"]) == 0

    assert rk.replay("cases/refund", broken).verdict == "reproduced"
    assert rk.replay("cases/refund", mended).verdict == "fixed"


def test_a_case_of_a_trace_in_protobuf_keeps_the_run_log_which_people_can_read() -> None:
    Path("t.pb").write_bytes(as_protobuf(document(agent(1, error="boom"), tool(2, 1, "look", {"q": 1}, result="x"))))

    assert run(["scaffold", "t.pb", "--out", "cases/c"]) == 0
    assert run(["lint", "cases/c"]) == 0
    assert json.loads(Path("cases/c/source-trace.json").read_text())["run"]["name"] == "support"


def test_runs_of_a_file_are_imported_once(capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("imported", "unchanged"):
        assert run(["import", str(sample("vercel_ai_sdk_v7/generateText.otlp.json"))]) == 0
        assert word in capsys.readouterr().out
