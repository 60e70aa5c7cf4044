"""Comparisons as text and JSON, and the verb that prints them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

import replaykit as rk
from replaykit.cli import cli
from replaykit.errors import InvalidFile, RunNotFound, UsageError
from replaykit.model.changes import StateFold
from replaykit.model.events import AnyEvent, ErrorInfo, LlmCall, State, ToolCall, Usage
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.model.values import Json, Raw, canonical, raw
from replaykit.report.comparison import comparison_text
from replaykit.report.layout import to_json
from replaykit.travel.compare import compare


def call(seq: int, name: str, result: Json = "ok", **arguments: Json) -> ToolCall:
    return ToolCall(seq=seq, name=name, arguments_json=Raw(canonical(arguments)), result_json=raw(result))


def run(*events: AnyEvent, id: str = "r", output: Json = "so", **header: Any) -> TraceRun:
    header = {"status": RunStatus.SUCCESS, "input_json": raw("why?"), **header}
    return TraceRun(id=id, output_json=raw(output), events=events, **header)


def text_of(a: TraceRun, b: TraceRun, *, whole: bool = False) -> str:
    return click.unstyle(comparison_text(compare(a, b), "good", "bad", whole=whole))


def numbered(size: int) -> list[ToolCall]:
    return [call(n, "search", n=n) for n in range(size)]


def test_identical_runs_are_called_so_on_the_first_line() -> None:
    text = text_of(run(*numbered(3)), run(*numbered(3)))

    assert text.splitlines()[0] == "identical: 3 events"
    assert "search" not in text


def test_the_whole_parting_on_one_screen() -> None:
    fold = StateFold()
    kept = [State(seq=n, state_json=w, change=c) for n, (w, c) in [(2, fold.advance({"hits": 1, "log": []}))]]
    usage = Usage(input_tokens=1000, output_tokens=234, cost_usd=0.0123)
    answer = LlmCall(seq=0, name="gpt", result_json=raw("search"), usage=usage)
    a = run(answer, call(1, "search", ["doc"], q="refund"), *kept, call(3, "lookup"), started_at=1.0, ended_at=3.5)
    b = run(
        answer,
        call(1, "search", [], q="refund"),
        State(seq=2, state_json=raw({"hits": 0, "log": []})),
        call(3, "refund", order=7),
        output=None,
        status=RunStatus.ERROR,
        error=ErrorInfo(type="RuntimeError", message="nothing found"),
        started_at=1.0,
        ended_at=2.0,
    )

    assert text_of(a, b).splitlines() == [
        "differs at step_2 (event 1): tool result of search",
        "  good  search(q='refund') → ['doc']",
        "  bad   search(q='refund') → []",
        "  removed   $.result[0]: 'doc'",
        "",
        "= 1 same  ~ 1 changed  + 1 only in bad  - 1 only in good",
        "  = 0 0  gpt(None)",
        "  ~ 1 1  search(q='refund')  $.result[0]",
        "  - 3    lookup()",
        "  +   3  refund(order=7)",
        "",
        "state after step_2",
        "  changed   $.hits: 1 → 0",
        "",
        "             good     bad                          difference",
        "status       success  error                        ≠",
        "output       'so'                                  ≠",
        "error                 RuntimeError: nothing found  ≠",
        "model calls  1        1",
        "tool calls   2        2",
        "tokens       1,234    1,234",
        "cost         $0.0123  $0.0123",
        "time         2.50 s   1.00 s                       -1.50 s",
        "",
        "tools: lookup 1 → 0, refund 0 → 1",
    ]


def stepped(*modes: str, until: int = 6) -> TraceRun:
    """A run of steps with a call and a state each; the mode is one of the keys."""
    events: list[AnyEvent] = []
    for n in range(until):
        mode = modes[min(n, len(modes) - 1)]
        state = State(seq=2 * n + 1, step=f"step_{n + 1}", state_json=raw({"mode": mode, "n": n}))
        events += [msgspec.structs.replace(call(2 * n, "search", n=n), step=f"step_{n + 1}"), state]
    return run(*events)


def test_a_state_that_differs_first_is_told_once_and_the_steps_after_it_are_named() -> None:
    text = text_of(stepped("slow"), stepped("slow", "fast"))

    assert text.splitlines()[:3] == [
        "differs at step_2 (event 3): state ($.mode)",
        "  changed   $.mode: 'slow' → 'fast'",
        "",
    ]
    assert text.count("$.mode") == 2
    assert "state differs after step_3, step_4, step_5 and 1 more as well" in text.splitlines()
    assert "as well" not in text_of(stepped("slow", until=2), stepped("slow", "fast", until=2))


def test_several_differences_of_a_state_are_counted_on_the_first_line() -> None:
    a, b = stepped("slow", until=1), run(call(0, "search", n=0), State(seq=1, step="step_1", state_json=raw({})))

    assert text_of(a, b).splitlines()[0] == "differs at step_1 (event 1): state ($.mode and 1 more)"


def test_states_that_could_not_be_compared_are_counted() -> None:
    begun = (call(0, "search"), State(seq=1, state_json=raw({})), call(2, "search"))
    kept, sampled = run(*begun, State(seq=3, state_json=raw({"n": 1}))), run(*begun, State(seq=3))

    text = text_of(kept, sampled)

    assert text.splitlines()[0] == "identical: 2 events"
    assert "The states after 1 step are not stored in both runs, and not compared." in text


@pytest.mark.parametrize(
    ("a", "b", "line"),
    [
        (run(input_json=raw(1)), run(input_json=raw(2)), "differs at the start: input"),
        (run(), run(output="else"), "differs at the end: outcome (output)"),
        (run(call(4, "f")), run(), "differs at step_1 (event 4): missing call of f"),
        (run(), run(call(4, "f")), "differs at step_1 (event 4): extra call of f"),
    ],
)
def test_the_first_line_says_where(a: TraceRun, b: TraceRun, line: str) -> None:
    assert text_of(a, b).splitlines()[0] == line


def test_what_one_run_does_not_have_is_shown_as_nothing() -> None:
    assert "  bad   (nothing)" in text_of(run(call(0, "f")), run()).splitlines()


def test_moved_calls_have_a_mark_of_their_own() -> None:
    calls = numbered(3)

    assert "  > 0 0  search(n=0)" in text_of(run(*calls), run(*calls[1:], calls[0])).splitlines()


def test_long_stretches_are_left_out_and_counted() -> None:
    calls = numbered(1000)
    other = [*calls[:500], call(500, "search", "else", n=500), *calls[501:]]

    lines = text_of(run(*calls), run(*other)).splitlines()

    listed = lines[lines.index("= 999 same  ~ 1 changed") + 1 :][:7]
    assert [line.strip()[:16] for line in listed] == [
        "… 498 same …",
        "= 498 498  searc",
        "= 499 499  searc",
        "~ 500 500  searc",
        "= 501 501  searc",
        "= 502 502  searc",
        "… 497 same …",
    ]


def test_many_differences_in_a_row_are_left_out_too() -> None:
    a, b = run(*numbered(1000)), run(*(call(n, "search", n=-n - 1) for n in range(1000)))

    assert "  … 994 changed …" in text_of(a, b).splitlines()
    assert len(text_of(a, b).splitlines()) < 40


def test_what_is_still_too_long_is_cut_and_says_how_to_see_it_all() -> None:
    a = run(*numbered(1000))
    b = run(*(call(n, "search", "else" if n % 2 else "ok", n=n) for n in range(1000)))

    assert "  … more: --all shows all 1,000 events" in text_of(a, b).splitlines()
    assert len(text_of(a, b).splitlines()) < 90


def test_the_whole_text_leaves_nothing_out() -> None:
    a = run(*numbered(1000))
    b = run(*(call(n, "search", {"n": n}, n=n) for n in range(1000)))

    lines = text_of(a, b, whole=True).splitlines()

    assert sum(line.startswith("  ~") for line in lines) == 1000
    assert sum("changed   $.result: 'ok' → " in line for line in lines) == 1001
    assert not any("…" in line for line in lines)


def test_a_long_name_is_cut_from_the_left_where_it_heads_a_column() -> None:
    text = click.unstyle(comparison_text(compare(run(), run()), "/very/long" * 9 + "/before.json", "b"))

    assert "long/before.json" in text
    assert max(map(len, text.splitlines())) < 100


def test_json_holds_everything_and_can_be_read_again() -> None:
    a, b = run(call(0, "f", {"x": 1}), id="a"), run(call(0, "f", {"x": 2}), id="b")

    document = json.loads(to_json(compare(a, b)))

    assert (document["replaykit"], document["a"], document["b"], document["identical"]) == (1, "a", "b", False)
    assert document["first"]["kind"] == "tool_result"
    assert document["entries"] == [
        {
            "kind": "changed",
            "event": "tool_call",
            "name": "f",
            "a_seq": 0,
            "b_seq": 0,
            "text": "f()",
            "outcome": [{"kind": "changed", "path": "$.result.x", "old": 1, "new": 2}],
        }
    ]
    assert set(document) >= {"states", "tools", "outcome", "usage"}


# The verb


def replaykit_compare(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["compare", *(str(argument) for argument in arguments)])


@pytest.fixture
def recorded(own_directory: Path) -> Path:
    path = own_directory / ".replaykit" / "store.db"
    with rk.Store.open(path) as store:
        store.add(run(call(0, "f"), id="one"))
        store.add(run(call(0, "f"), id="other"))
        store.add(run(call(0, "g"), id="third"))
    return path


@pytest.mark.usefixtures("recorded")
def test_identical_runs_pass_and_others_fail() -> None:
    same, different = replaykit_compare("one", "other"), replaykit_compare("one", "third")

    assert (same.exit_code, same.stdout.splitlines()[0]) == (0, "identical: 1 event")
    assert (different.exit_code, different.stdout.splitlines()[0]) == (
        1,
        "differs at step_1 (event 0): missing call of f, g instead",
    )


@pytest.mark.usefixtures("recorded")
def test_json_has_the_same_exit_codes() -> None:
    assert replaykit_compare("one", "other", "--json").exit_code == 0
    failed = replaykit_compare("one", "third", "--json")
    assert (failed.exit_code, json.loads(failed.stdout)["identical"]) == (1, False)


def test_another_store_can_be_named(recorded: Path) -> None:
    elsewhere = recorded.rename(recorded.parent / "elsewhere.db")

    assert replaykit_compare("one", "other", "--store", elsewhere).exit_code == 0


def test_trace_files_are_compared_without_a_store(own_directory: Path) -> None:
    (own_directory / "a.json").write_bytes(encode_run(run(call(0, "f"))))
    trace = {"run_id": "t", "status": "success", "input": "why?", "final_output": "so", "events": [{"type": "dance"}]}
    (own_directory / "b.json").write_text(json.dumps(trace))

    assert replaykit_compare("a.json", "a.json").exit_code == 0
    ran = replaykit_compare("a.json", "b.json")
    assert (ran.exit_code, "missing call of f" in ran.stdout, "note: b.json: " in ran.stderr) == (1, True, True)
    assert sorted(path.name for path in own_directory.iterdir()) == ["a.json", "b.json"]


@pytest.mark.usefixtures("recorded")
def test_a_run_or_file_that_is_not_there_is_named() -> None:
    assert isinstance(replaykit_compare("one", "nobody").exception, RunNotFound)
    assert isinstance(replaykit_compare("one", "nothing.json").exception, InvalidFile)


def test_a_file_with_several_runs_is_refused(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from replaykit.cli import compare as compare_verb
    from replaykit.formats.core.registry import Imported

    monkeypatch.setattr(compare_verb, "import_trace", lambda path: Imported(format="x", runs=(run(), run())))
    ran = replaykit_compare("a.json", "b.json")

    assert isinstance(ran.exception, UsageError)
    assert "holds 2 runs" in str(ran.exception)
