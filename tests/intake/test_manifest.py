"""How much of a run can be replayed is told where it comes in, where it is shown, and in what programs read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.intake.traces import ADVICE, Partial, native, written

from replaykit.formats.core.registry import IMPORTERS

Run = Callable[..., Any]


@pytest.fixture(autouse=True)
def partial() -> Iterator[None]:
    IMPORTERS.register("partial")(Partial())
    yield
    del IMPORTERS._entries["partial"]


def test_an_import_says_what_cannot_be_replayed_and_what_would_help_once(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\nwhole - -\none result cut\ntwo arguments -\n")

    ran = replaykit("import", "some.txt")

    assert ran.code == 0
    assert "2 runs cannot be replayed completely:" in ran.out
    assert "  one: 1 of 3 calls can be replayed exactly (result missing, values cut)" in ran.out
    assert "  two: 2 of 3 calls can be replayed exactly (arguments missing)" in ran.out
    assert ran.out.count(ADVICE) == 1
    assert "whole:" not in ran.out.replace("as a whole:", "")


def test_runs_that_can_be_replayed_are_not_spoken_of(replaykit: Run) -> None:
    ran = replaykit("import", written("one.json", native()))

    assert "replayed" not in ran.out


def test_the_manifest_is_in_the_json(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\none arguments+result -\n")

    (entry,) = replaykit("import", "some.txt", "--json").entries

    assert entry["replayable"] == {
        "calls": 3,
        "exact": 2,
        "score": 0.667,
        "summary": "2 of 3 calls can be replayed exactly (arguments, result missing)",
        "lacking": [{"seq": 1, "name": "tool_1", "lacks": ["arguments", "result"]}],
        "advice": [ADVICE],
    }
    assert {key: entry[key] for key in ("format", "agent", "model_calls", "tool_calls")} == {
        "format": "partial",
        "agent": "support",
        "model_calls": 1,
        "tool_calls": 2,
    }
    assert (entry["input_tokens"], entry["output_tokens"]) == (1200, 34)


def test_a_dry_run_is_a_table_of_what_is_there(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\none result result result\n")

    ran = replaykit("import", "some.txt", "--dry-run")

    head, row = ran.out.splitlines()[:2]
    assert " ".join(head.split()) == "run result status format started (UTC) models tools tokens replayable name"
    assert " ".join(row.split()) == "one imported error partial 2026-02-13 16:26:40 1 3 1,234 25% partial"


def test_a_dry_run_knows_a_run_that_comes_twice(replaykit: Run) -> None:
    file = written("many.json", [native("a"), native("a"), native("a", output="else")])

    ran = replaykit("import", file, "--dry-run", "--json")

    assert [entry["result"] for entry in ran.entries] == ["imported", "unchanged", "updated"]


def test_a_run_is_shown_with_what_it_lacks(replaykit: Run) -> None:
    written("some.txt", b"PARTIAL\none hidden -\nwhole -\n")
    replaykit("import", "some.txt")

    lacking, whole = replaykit("show", "one").out, replaykit("show", "whole").out

    assert "  replay   2 of 3 calls can be replayed exactly (values hidden)" in lacking
    assert f"  replay   {ADVICE}" in lacking
    assert "  replay" not in whole
