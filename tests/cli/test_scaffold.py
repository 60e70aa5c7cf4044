"""`replaykit scaffold`: straight from a trace of any format, packed ones included, where it tells enough."""

from __future__ import annotations

import gzip
import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard
from tests.commands import Ran, caller
from tests.formats.samples import sample
from tests.intake.traces import ADVICE, Partial, failed, lines, native, written

import replaykit as rk
from replaykit.cli import run
from replaykit.formats.core.registry import IMPORTERS


@pytest.fixture
def scaffold(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    """Run `replaykit scaffold`: its exit code, and what it said."""
    return caller(capsys, Ran, "scaffold")


@pytest.fixture
def partial() -> Iterator[None]:
    IMPORTERS.register("partial")(Partial())
    yield
    del IMPORTERS._entries["partial"]


PACKS = {"gz": gzip.compress, "zst": zstandard.ZstdCompressor().compress}


def kept(directory: str = "cases/x") -> Any:
    return json.loads(Path(directory, "source-trace.json").read_bytes())


def test_the_trace_of_a_run_alone_is_kept_as_it_is(scaffold: Callable[..., Any]) -> None:
    trace = failed("only")

    assert scaffold(written("only.json", trace), "--out", "cases/x")[0] == 0

    assert kept() == trace
    assert rk.load_case("cases/x").source.format == "replaykit"


def test_of_several_runs_one_is_selected_and_its_run_log_kept(scaffold: Callable[..., Any]) -> None:
    file = written("many.jsonl", lines([native("run-1"), failed("run-2"), failed("run-22")]))

    assert scaffold(file, "--select", "run-2", "--out", "cases/x")[0] == 0

    assert kept()["run"]["id"] == "run-2"
    source = rk.load_case("cases/x").source
    assert (source.run, source.format) == ("run-2", "run_log")
    assert b"run-1" not in Path("cases/x/source-trace.json").read_bytes()


def test_the_beginning_of_an_id_selects_a_run(scaffold: Callable[..., Any]) -> None:
    file = written("many.jsonl", lines([native("0199a1b2-7c"), failed("0211ffff-01")]))

    assert scaffold(file, "--select", "0211", "--out", "cases/x")[0] == 0
    assert rk.load_case("cases/x").source.run == "0211ffff-01"


def test_the_older_spelling_selects_as_well(scaffold: Callable[..., Any]) -> None:
    file = written("many.jsonl", lines([native("a"), failed("b")]))

    assert scaffold(file, "--run", "b", "--out", "cases/x")[0] == 0


@pytest.mark.parametrize(
    ("select", "told"),
    [
        ([], "holds 7 runs\nName one with --select: bad-1, bad-2 … (failed)"),
        (["--select", "bad"], "holds several runs whose ids begin with 'bad'\nGive more of the id: bad-1, bad-2 …"),
        (["--select", "nobody"], "holds no run 'nobody'\nIt holds: bad-1, bad-2 … (failed)"),
    ],
)
def test_a_run_that_is_not_told_apart_is_asked_for(scaffold: Callable[..., Any], select: list[str], told: str) -> None:
    runs = [*(native(f"good-{n}") for n in range(5)), failed("bad-1"), failed("bad-2")]
    file = written("many.jsonl", lines(runs))

    code, _, err = scaffold(file, *select, "--out", "cases/x")

    assert code == 2
    assert told in err
    assert not Path("cases").exists()


@pytest.mark.parametrize("suffix", PACKS)
def test_a_packed_trace_becomes_a_case_with_a_run_log_that_can_be_read(
    scaffold: Callable[..., Any], suffix: str
) -> None:
    file = written(f"only.json.{suffix}", PACKS[suffix](json.dumps(failed("only")).encode()))

    assert scaffold(file)[0] == 0

    assert kept("cases/only")["run"]["id"] == "only"
    assert rk.load_case("cases/only").source.format == "run_log"


def test_a_trace_comes_through_a_pipe(scaffold: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    text = lines([native("a"), failed("b")])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    code, out, _ = scaffold("-", "--select", "b")

    assert code == 0
    assert "Created cases/b" in out


def test_a_large_trace_is_not_kept(scaffold: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("replaykit.cases.promote.MAX_TEXT_BYTES", 100)

    assert scaffold(written("only.json", failed("only")), "--out", "cases/x")[0] == 0
    assert kept()["run"]["id"] == "only"


def test_a_vendors_file_becomes_a_case(scaffold: Callable[..., Any]) -> None:
    file = sample("otel_genai/openai_v2_semconv_latest.otlp.json")

    code, out, err = scaffold(file, "--select", "108d96cb", "--out", "cases/x")

    assert code == 0, err
    assert "Created cases/x" in out
    assert run(["lint", "cases/x"]) == 0


def test_bad_records_beside_the_run_are_remarks(scaffold: Callable[..., Any]) -> None:
    file = written("many.jsonl", lines([failed("good"), native("bad", status="sucess")]))

    code, _, err = scaffold(file, "--out", "cases/x")

    assert code == 0
    assert "note: left out: many.jsonl:2: status: unknown status 'sucess'" in err
    assert "many.jsonl:2" in Path("cases/x/notes.md").read_text()


def test_a_file_of_which_nothing_can_be_read_says_why(scaffold: Callable[..., Any]) -> None:
    file = written("many.jsonl", lines([native("a", status="sucess"), native("b", status="sucess")]))

    code, _, err = scaffold(file)

    assert code == 2
    assert "many.jsonl:1: status: unknown status 'sucess'" in err


@pytest.mark.usefixtures("partial")
@pytest.mark.parametrize("lacks", ["result", "arguments arguments", "hidden", "result arguments+result hidden"])
def test_a_run_of_which_no_tool_call_can_be_replayed_is_refused(scaffold: Callable[..., Any], lacks: str) -> None:
    file = written("some.txt", f"PARTIAL\nthin {lacks}\n".encode())

    code, _, err = scaffold(file, "--out", "cases/x")

    assert code == 2
    assert "run 'thin' is too incomplete for a case" in err
    assert "tool_1 (event 1): " in err
    assert ADVICE in err
    assert err.rstrip().endswith("Make the case anyway: --allow-incomplete")
    assert not Path("cases").exists()


@pytest.mark.usefixtures("partial")
def test_what_is_lacking_of_a_run_that_can_be_replayed_stands_in_its_notes(scaffold: Callable[..., Any]) -> None:
    file = written("some.txt", b"PARTIAL\nsome - result cut\n")

    code, _, err = scaffold(file, "--out", "cases/x")

    assert code == 1
    assert "Not ready: the recorded run is diverged, expected reproduced" in err
    notes = Path("cases/x/notes.md").read_text()
    for line in ("2 of 4 calls can be replayed exactly", "tool_2 (event 2): no result", "tool_3 (event 3): a value is"):
        assert line in notes
        assert line in err


@pytest.mark.usefixtures("partial")
def test_what_is_only_cut_is_no_reason_to_refuse(scaffold: Callable[..., Any]) -> None:
    assert scaffold(written("some.txt", b"PARTIAL\nshort cut cut\n"), "--out", "cases/x")[0] == 0


@pytest.mark.usefixtures("partial")
def test_an_incomplete_run_becomes_a_case_where_that_is_allowed(scaffold: Callable[..., Any]) -> None:
    file = written("some.txt", b"PARTIAL\nthin result\n")

    code, _, err = scaffold(file, "--out", "cases/x", "--allow-incomplete")

    assert code == 1
    assert "Not ready" in err
    assert "tool_1 (event 1): no result" in Path("cases/x/notes.md").read_text()


@pytest.mark.usefixtures("partial")
def test_an_imported_run_of_the_store_is_refused_as_well(scaffold: Callable[..., Any]) -> None:
    run(["import", str(written("some.txt", b"PARTIAL\nthin result\n"))])

    code, _, err = scaffold("thin")

    assert code == 2
    assert "its only tool call cannot be replayed" in err


def test_a_recorded_run_is_never_too_incomplete(scaffold: Callable[..., Any], store: rk.Store) -> None:
    with pytest.raises(RuntimeError), rk.record("mine", input="x", store=store):
        raise RuntimeError("before any call was answered")

    assert scaffold("mine", "--store", "store.db", "--out", "cases/x")[0] == 0


AGENT = """
import sys
import replaykit as rk

@rk.tool
def look(item):
    return {"item": item}

def breaks(item):
    look(item)
    raise LookupError("sold out")

def answers(item):
    return look(item)

if __name__ == "__main__":
    print(globals()[sys.argv[1]]("lamp"))
"""


@pytest.fixture
def shop(own_directory: Path, monkeypatch: pytest.MonkeyPatch, store: rk.Store) -> None:
    """Two runs in the store: `broke`, and `fine`."""
    Path("shop.py").write_text(AGENT)
    monkeypatch.syspath_prepend(str(own_directory))
    monkeypatch.setitem(sys.modules, "shop", None)  # at the end there is none again
    del sys.modules["shop"]
    import shop as agents  # type: ignore[import-not-found]

    with pytest.raises(LookupError), rk.record("broke", input="lamp", store=store):
        agents.breaks("lamp")
    with rk.record("fine", input="lamp", store=store) as run:
        run.output = agents.answers("lamp")


@pytest.mark.usefixtures("shop")
def test_a_case_that_reproduces_its_recording_is_ready(scaffold: Callable[..., Any]) -> None:
    code, out, err = scaffold("broke", "--store", "store.db", "--out", "cases/x")

    assert code == 0
    assert "Ready: reproduced by the recorded run\n" in err
    assert out.rstrip().endswith("Next: replaykit replay cases/x --agent MODULE:FUNCTION")


@pytest.mark.usefixtures("shop")
def test_an_agent_that_is_named_is_replayed_too(scaffold: Callable[..., Any]) -> None:
    code, _, err = scaffold("broke", "--store", "store.db", "--out", "cases/x", "--agent", "shop:breaks")

    assert code == 0
    assert "Ready: reproduced by the recorded run and shop:breaks" in err
    assert json.loads(Path("cases/x/proof.json").read_text())["red"]["candidate"] == "shop:breaks"


@pytest.mark.usefixtures("shop")
@pytest.mark.parametrize(
    "candidate",
    [
        ("--agent", "shop:answers"),
        ("--", sys.executable, "shop.py", "answers"),
        ("--runner-cmd", f"{sys.executable} shop.py answers"),
    ],
    ids=["agent", "program", "runner"],
)
def test_a_candidate_that_does_not_fail_again_makes_the_case_unready(
    scaffold: Callable[..., Any], candidate: tuple[str, ...]
) -> None:
    code, out, err = scaffold("broke", "--store", "store.db", "--out", "cases/x", *candidate)

    assert code == 1
    assert "Not ready: " in err
    assert "is fixed, expected reproduced" in err
    assert "Created cases/x" in out
    assert "Next:" not in out
    proof = json.loads(Path("cases/x/proof.json").read_text())
    assert "red" not in proof
    assert proof["not_reproduced"]["verdict"] == "fixed"


@pytest.mark.usefixtures("shop")
def test_no_verb_calls_a_candidate_fixed_that_did_not_fail_when_the_case_was_made(
    scaffold: Callable[..., Any], replaykit: Callable[..., Any]
) -> None:
    scaffold("broke", "--store", "store.db", "--out", "cases/x", "--agent", "shop:answers")

    replayed = replaykit("replay", "cases/x", "--agent", "shop:answers")
    config = {"replaykit": 1, "agent": {"type": "python", "endpoint": "shop:answers"}, "cases": ["cases"]}
    Path("replaykit.yaml").write_text(json.dumps(config))
    in_ci = replaykit("ci")

    assert replayed.code == 3
    assert "the unchanged candidate did not reproduce the failure" in replayed.out
    assert in_ci.code == 3
    assert "the unchanged candidate did not reproduce the failure" in in_ci.out
    assert "not-reproduced" in replaykit("lint", "cases").out


@pytest.mark.usefixtures("shop")
def test_a_run_that_went_well_has_nothing_to_reproduce(scaffold: Callable[..., Any]) -> None:
    code, out, _ = scaffold("fine", "--store", "store.db", "--out", "cases/x", "--json")

    assert code == 3
    told = json.loads(out)
    assert told["ready"] is False
    assert told["problem"].startswith("nothing to reproduce")
    assert [check["verdict"] for check in told["checks"]] == ["inconclusive"]


def test_a_recorded_program_is_replayed_by_itself_unless_that_is_skipped(scaffold: Callable[..., Any]) -> None:
    Path("shop.py").write_text(AGENT)
    assert run(["record", "--name", "program", "--", sys.executable, "shop.py", "breaks"]) == 1

    checked = scaffold("program", "--out", "cases/x")
    skipped = scaffold("program", "--out", "cases/y", "--no-check")

    assert (checked.code, skipped.code) == (0, 0), checked.err + skipped.err
    assert "shop.py breaks" in checked.err
    assert skipped.err.endswith("Ready: reproduced by the recorded run\n")


def test_no_check_and_a_candidate_do_not_go_together(scaffold: Callable[..., Any]) -> None:
    file = written("only.json", failed("only"))

    assert scaffold(file, "--no-check", "--agent", "shop:breaks").code == 2
    assert not Path("cases").exists()
