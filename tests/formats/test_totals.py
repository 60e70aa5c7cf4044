"""Tokens and money that a format states for a whole run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.formats.samples import corpus

from replaykit.formats.core.replayability import added, total_of, with_total
from replaykit.formats.files import import_trace
from replaykit.intake.entries import entry_of
from replaykit.intake.job import read_files
from replaykit.model.events import LlmCall, Usage
from replaykit.model.run import TraceRun
from replaykit.model.values import raw

TOTAL = Usage(input_tokens=7, output_tokens=3, cost_usd=0.5)


def run_of(*usages: Usage | None) -> TraceRun:
    return TraceRun(id="r", events=tuple(LlmCall(seq=i, name="m", usage=usage) for i, usage in enumerate(usages)))


def test_the_only_call_of_a_run_took_all_of_it():
    run = with_total(run_of(None), TOTAL)

    assert run.llm_calls[0].usage == TOTAL
    assert total_of(run) == TOTAL


def test_several_calls_share_a_total_that_nobody_divides():
    run = with_total(run_of(None, None), TOTAL)

    assert [call.usage for call in run.llm_calls] == [None, None]
    assert total_of(run) == TOTAL


def test_what_the_calls_say_counts_before_a_total():
    run = with_total(run_of(Usage(input_tokens=1), Usage(input_tokens=2)), TOTAL)

    assert total_of(run) == Usage(input_tokens=3)


@pytest.mark.parametrize("usage", ["many", {"input_tokens": "7"}, None])
def test_metadata_that_only_looks_like_a_total_is_none(usage):
    run = TraceRun(id="r", metadata_json=raw({"usage": usage}))

    assert total_of(run) == Usage()


def test_nothing_adds_up_to_nothing():
    assert added([]) == Usage()


def test_an_import_of_swe_agent_counts_the_tokens_of_its_model_stats():
    name = "gpt4__swe-bench-dev-easy_first_only__default__t-0.00__p-0.95__c-3.00__install-1__pydicom__pydicom-1458.traj"

    (record,) = read_files([corpus(f"swe-agent/{name}")])

    entry = entry_of(record)
    assert (entry.input_tokens, entry.output_tokens) == (122_612, 1369)


def sample(**more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": "Go"}, {"role": "assistant", "content": "A"}]
    return {"id": "1", "epoch": 1, "input": "Go", "target": "A", "messages": messages, "output": {}, **more}


def test_inspect_counts_the_usage_of_a_sample_that_has_no_events(tmp_path: Path):
    usage = {"openai/gpt-5": {"input_tokens": 66, "output_tokens": 3, "total_tokens": 69}}
    log = {"version": 2, "status": "success", "eval": {"task": "t"}, "samples": [sample(model_usage=usage)]}
    (tmp_path / "log.json").write_text(json.dumps(log))

    (run,) = import_trace(tmp_path / "log.json", "inspect").runs

    assert total_of(run) == Usage(input_tokens=66, output_tokens=3)
