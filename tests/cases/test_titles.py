"""Titles of cases: words that say what went wrong, without arguments and details."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from replaykit.cases.signatures import FailureSignature, detect
from replaykit.cases.timeline import MAX_CHARS, title_of
from replaykit.checks.assertions import parse_assertion
from replaykit.documents.slug import typeable
from replaykit.formats.files import import_trace
from replaykit.model.run import TraceRun

TRACES = Path(__file__).parents[2] / "examples" / "traces"


def titled(*assertions: tuple[str, Any]) -> str:
    signatures = [
        FailureSignature(code=kind, assertion=parse_assertion(kind, value), text=f"{kind} {value}")
        for kind, value in assertions
    ]
    return title_of(TraceRun(id="r", name="refunds"), signatures)


@pytest.mark.parametrize(
    ("trace", "title"),
    [
        ("search-loop", "lookup_billing called 5 times; no answer"),
        ("fabricated-after-504", "Output states '$4.21 billion', '12%', which nothing in the run supports"),
        ("ignored-tool-error", "charge_card failed and the answer hides it"),
        ("prompt-injection", "send_email called against expectation"),
        ("wrong-tool-argument", "search_flights called 3 times; no answer"),
    ],
)
def test_the_title_of_each_example_says_what_went_wrong(trace, title):
    run = import_trace(TRACES / f"{trace}.json").runs[0]

    assert title_of(run, detect(run)) == title


def test_a_title_names_no_arguments():
    missing = ("tool.not_called", {"tool": "book", "arguments": {"flights": [{"date": "2024-05-19"}] * 9}})

    assert titled(missing) == "book not called as expected"
    assert titled(("not", {"output.answer": "A"})) == "The answer is not A"
    assert titled(("not", {"effect.exactly_once": {"tool": "pay"}})) == "pay not done exactly once"


def test_the_most_telling_signature_comes_first_and_a_title_stays_short():
    long = ("output.equals", "x" * 300)

    assert titled(("status_is", "error"), ("tool.lookup_skipped", True)).startswith("Answered without the lookup")
    assert len(titled(long, ("tool.ignored_error", {"tool": "y" * 90}))) <= MAX_CHARS


def test_a_run_without_a_signature_is_called_by_its_name():
    assert titled() == "What went wrong in refunds"


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("search-loop", "search-loop"),
        ("task 0, trial 0", "task-0-trial-0"),
        ("Überweisung fällig?", "Uberweisung-fallig"),
        (".hidden", "hidden"),
        ("a/b\\c:d", "a-b-c-d"),
        ("", "case"),
    ],
)
def test_an_id_can_be_typed(name, id):
    assert typeable(name) == id


def test_names_that_no_keyboard_has_get_ids_that_differ():
    ids = {typeable("検索ループ"), typeable("返金ループ")}

    assert len(ids) == 2
    assert all(one.isascii() and one.startswith("case-") for one in ids)
