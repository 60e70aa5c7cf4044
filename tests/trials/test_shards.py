"""Shards: every case belongs to one of them, and merged they are the whole."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matrix import sampled

from replaykit.cli import run
from replaykit.contracts.contract import Severity
from replaykit.errors import FormatTooNew, InvalidFile, StoreError, UsageError
from replaykit.model.values import raw
from replaykit.report.ci import ci_json, ci_text
from replaykit.report.ci_junit import ci_junit
from replaykit.report.ci_markdown import ci_markdown
from replaykit.trials.ci_merge import merged
from replaykit.trials.ci_records import (
    CiHeader,
    CiRecord,
    PlannedPart,
    RecordFile,
    Tally,
    place_of,
    read_records,
    result_of,
)
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName, CiResult
from replaykit.trials.shards import Shard, assigned, parse_shard, read_timings, result_files

NAMES = st.lists(st.text(max_size=8), unique=True, max_size=60)


@given(names=NAMES, count=st.integers(1, 7), seconds=st.lists(st.integers(0, 9), max_size=60))
def test_every_case_belongs_to_exactly_one_shard_in_any_order(names: list[str], count: int, seconds: list[int]) -> None:
    measured = {f"{name} of earlier": 1.0 for name in names}
    measured.update(zip(names, map(float, seconds), strict=False))

    shards = assigned(names, count, measured)

    assert shards.keys() == set(names)
    assert set(shards.values()) <= set(range(1, count + 1))
    assert assigned(reversed(names), count, dict(reversed(measured.items()))) == shards


@given(names=NAMES, count=st.integers(1, 7), name=st.text(max_size=8))
def test_a_case_that_is_added_moves_no_other(names: list[str], count: int, name: str) -> None:
    shards = assigned(names, count, {})

    more = assigned([*names, name], count, {})

    assert {other: more[other] for other in names} == shards


@given(seconds=st.lists(st.floats(0.001, 100), min_size=1, max_size=80), count=st.integers(1, 6))
def test_shards_take_about_as_long_where_times_are_known(seconds: list[float], count: int) -> None:
    measured = {f"case-{number}": value for number, value in enumerate(seconds)}

    shards = assigned(measured, count, measured)

    loads = [0.0] * count
    for name, number in shards.items():
        loads[number - 1] += measured[name]
    # Dealt out from the longest on, no shard is more than the longest case above the mean.
    assert max(loads) <= sum(seconds) / count + max(seconds) + 1e-6


WEIGHTS = {"mutation": 0.2, "contract": 0.35, "chaos": 0.35, "replay": 0.1}


def header(**changes: Any) -> CiHeader:
    parts = tuple(PlannedPart(part=part, weight=WEIGHTS[part.value]) for part in CiPartName)
    settings = {
        "version": "1",
        "suite": "s",
        "settings": "c",
        "parts": parts,
        "agent": "a:b",
        "config": "replaykit.yaml",
    }
    return CiHeader(**{**settings, **changes})


OUTCOMES = st.sampled_from([CiOutcome.PASSED, CiOutcome.FAILED, CiOutcome.ERROR])
SEVERITIES = st.sampled_from(list(Severity))
CHAOS_VERDICTS = {CiOutcome.PASSED: "held", CiOutcome.FAILED: "broke", CiOutcome.ERROR: "error"}


@st.composite
def suites(draw: st.DrawFn) -> list[CiRecord]:
    """The records of a suite, in order."""
    records = []
    for part in CiPartName:
        for unit in range(draw(st.integers(0, 5))):
            outcome = draw(OUTCOMES)
            checks = tuple(draw(st.lists(st.tuples(SEVERITIES, st.sampled_from([True, False, None])), max_size=3)))
            is_chaos = part is CiPartName.CHAOS
            item = CiItem(
                part=part,
                id=draw(st.sampled_from(["a", "b", "c \x1b☃", "d"])),
                outcome=outcome,
                verdict=CHAOS_VERDICTS[outcome] if is_chaos else outcome.value,
                reason=draw(st.sampled_from(["", "no answer"])),
                faults=tuple(draw(st.lists(st.just("tool.error in t (event 0)"), max_size=1))) if is_chaos else (),
                duration_s=draw(st.floats(0, 10).map(lambda value: round(value, 6))),
                is_wrong_file=outcome is CiOutcome.ERROR and draw(st.booleans()),
                offline=draw(st.booleans()),
                output_json=raw("done"),
            )
            tally = Tally(
                checks=checks, weight=draw(st.sampled_from([0.5, 1.0])), invariant_count=draw(st.integers(0, 1))
            )
            has_tally = part is CiPartName.REPLAY or draw(st.integers(0, 9)) > 0
            records.append(CiRecord(place=place_of(part, unit), item=item, tally=tally if has_tally else None))
    return records


def written(file: Path, head: CiHeader, records: list[CiRecord]) -> Path:
    results = RecordFile(file, head)
    for record in records:
        results.add(record)
    results.finish()
    results.close()
    return file


def reports(result: CiResult) -> list[Any]:
    forms = [ci_json, ci_junit, ci_markdown, ci_text]
    return [result.exit_code, result.passed, *(form(result) for form in forms)]


@given(
    records=suites(),
    count=st.integers(1, 5),
    min_score=st.sampled_from([None, 0.0, 50.0, 100.0]),
    contract=st.sampled_from(["", "default"]),
    data=st.data(),
)
def test_shards_merged_in_any_order_are_the_whole(
    records: list[CiRecord], count: int, min_score: float | None, contract: str, data: st.DataObject
) -> None:
    shards: list[list[CiRecord]] = [[] for _ in range(count)]
    for record in records:
        shards[data.draw(st.integers(0, count - 1))].append(record)
    head = header(min_score=min_score, chaos_contract=contract)
    with TemporaryDirectory() as place:
        directory = Path(place)
        whole = result_of(head, [written(directory / "whole.jsonl", head, records)])
        files = []
        for number, own in enumerate(shards, start=1):
            own_head = header(min_score=min_score, chaos_contract=contract, shard=number, shards=count)
            files.append(written(directory / f"shard-{number}-of-{count}.jsonl", own_head, own))
        expected = reports(whole)

        for order in (files, files[::-1], data.draw(st.permutations(files))):
            assert reports(merged(order)) == expected
        assert reports(merged(result_files([directory]))) == expected


@pytest.fixture
def shards(tmp_path: Path) -> Callable[..., Path]:
    def write(name: str, number: int, **changes: Any) -> Path:
        item = CiItem(part=CiPartName.REPLAY, id=name, outcome=CiOutcome.PASSED, verdict="fixed")
        record = CiRecord(place=place_of(CiPartName.REPLAY, number), item=item, tally=Tally())
        return written(tmp_path / f"{name}.jsonl", header(shard=number, **{"shards": 3, **changes}), [record])

    return write


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"version": "2"}, "other versions of ReplayKit"),
        ({"settings": "x"}, "another configuration, other options or another agent"),
        ({"suite": "x"}, "of other cases"),
        ({"assignment": "x"}, "other --timings"),
        ({"shards": 4}, "another number of shards"),
    ],
)
def test_results_that_do_not_belong_together_are_refused(
    shards: Callable[..., Path], changes: dict[str, Any], text: str
) -> None:
    files = [shards("a", 1), shards("b", 2, **changes), shards("c", 3)]

    for order in (files, files[::-1]):
        with pytest.raises(UsageError, match=text):
            merged(order)


def test_a_shard_that_is_missing_is_named(shards: Callable[..., Path]) -> None:
    with pytest.raises(UsageError, match="of 3 shards, these are missing: 2, 3"):
        merged([shards("a", 1)])


def test_a_shard_that_is_there_twice_is_named(shards: Callable[..., Path]) -> None:
    files = [shards("a", 1), shards("b", 2), shards("c", 3), shards("again", 2)]

    with pytest.raises(UsageError, match=r"shard 2 of 3 appears twice: .*b\.jsonl and .*again\.jsonl"):
        merged(files)


def test_a_shard_that_was_stopped_is_named(shards: Callable[..., Path]) -> None:
    files = [shards("a", 1), shards("b", 2), shards("c", 3)]
    whole = files[1].read_bytes().splitlines(keepends=True)
    for text in (b"".join(whole[:-1]), b"".join([whole[0], whole[-1]]), b"".join(whole)[:-3]):
        files[1].write_bytes(text)
        with pytest.raises(InvalidFile, match=r"b\.jsonl"):
            merged(files)


@pytest.mark.parametrize("text", ["", "{}", "[1]\n", '{"kind": "x"}', "\xff", '{"kind":"ci-results","replaykit":1}'])
def test_other_files_are_refused(shards: Callable[..., Path], tmp_path: Path, text: str) -> None:
    (tmp_path / "other.jsonl").write_text(text, encoding="latin-1")

    with pytest.raises(InvalidFile, match="not results of"):
        merged([shards("a", 1), tmp_path / "other.jsonl"])


def test_newer_results_are_refused(shards: Callable[..., Path]) -> None:
    with pytest.raises(FormatTooNew, match="format 2"):
        merged([shards("a", 1, replaykit=2)])


def test_results_that_cannot_be_read_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        merged([tmp_path / "nowhere.jsonl"])


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "-1/2", "1/2/3", "a/b", "1 / 2", "٣/٤"])
def test_a_shard_is_one_of_several(text: str) -> None:
    with pytest.raises(UsageError, match="expected K/N"):
        parse_shard(text)
    assert parse_shard("2/3") == Shard(2, 3)


# From the command line

AGENT = """
import replaykit as rk

@rk.tool
def lookup(order):
    return {"status": "shipped"}

def answer(question):
    return f"It was {lookup(order=7)['status']}."
"""
FAULT = {"tool_faults": [{"tool": "lookup", "mode": "error", "error_code": 503}]}

EVERYTHING = {"inputs": ["Where?"], "chaos": FAULT, "mutations": {"count": 2}}


def suite(count: int, **parts: Any) -> None:
    Path("shard_agent.py").write_text(AGENT)
    sessions = []
    for number in range(count):
        contract = "strict" if number == 3 else "default"
        answers = [{"tool": "lookup", "response": {"status": "shipped"}}]
        sessions.append({"id": f"s{number}", "input": "Where?", "contract": contract, "tool_responses": answers})
    value = {
        "replaykit": 1,
        "agent": {"type": "python", "endpoint": "shard_agent:answer", "timeout": 20000},
        "contracts": [
            {"name": "default", "invariants": [{"id": "answers", "type": "output_not_empty"}]},
            {"name": "strict", "invariants": [{"id": "lost", "type": "contains", "value": "lost"}]},
        ],
        "replays": {"sessions": sessions},
        **parts,
    }
    Path("replaykit.yaml").write_text(json.dumps(value))


CHANGING = ("duration_s", "latency_ms", "evidence", "started_at")


def without_times(document: Any) -> Any:
    """The document, without what differs from run to run."""
    if isinstance(document, list):
        return list(map(without_times, document))
    if isinstance(document, dict):
        return {key: without_times(value) for key, value in document.items() if key not in CHANGING}
    return document


@sampled("parts", [{}, {"inputs": ["Where?"], "chaos": FAULT, "mutations": {"count": 2}}], count=1, start=1)
def test_shards_merged_are_what_ci_says(capsys: pytest.CaptureFixture[str], parts: dict[str, Any]) -> None:
    suite(6, **parts)
    whole_code = run(["ci", "--json"])
    whole = json.loads(capsys.readouterr().out)

    codes = [run(["ci", "--shard", f"{number}/3", "-o", "shards", "-q"]) for number in (3, 1, 2)]
    capsys.readouterr()
    code = run(["ci", "merge", "shards", "--json", "-o", "reports"])
    document = json.loads(capsys.readouterr().out)

    assert without_times(document) == without_times(whole)
    assert code == whole_code == max(codes) == 1
    assert sorted(file.name for file in Path("reports").iterdir()) == ["ci.html", "ci.json", "ci.md", "junit.xml"]
    ran: Counter[str] = Counter()
    for file in Path("shards").iterdir():
        ran.update(record.item.id for record in read_records(file) if record.item.part is CiPartName.REPLAY)
    assert ran == Counter({f"s{number}": 1 for number in range(6)})
    assert run(["ci", "merge", "shards", "--json"]) == code
    assert json.loads(capsys.readouterr().out) == document


def test_an_empty_shard_passes(capsys: pytest.CaptureFixture[str]) -> None:
    suite(1)

    codes = [run(["ci", "--shard", f"{number}/4"]) for number in range(1, 5)]

    out = capsys.readouterr().out
    assert codes == [0, 0, 0, 0]
    assert out.count("nothing to run") == 3
    assert run(["ci", "merge", ".replaykit/shards"]) == 0


def test_an_empty_suite_is_nothing_in_every_shard(capsys: pytest.CaptureFixture[str]) -> None:
    suite(0)

    assert run(["ci", "--only", "replay", "--shard", "1/2"]) == 5


def test_cases_are_dealt_out_by_the_time_they_took(capsys: pytest.CaptureFixture[str]) -> None:
    suite(6)
    assert run(["ci", "-o", "earlier"]) == 1
    document = json.loads(Path("earlier/ci.json").read_text())
    for number, item in enumerate(document["items"]):
        item["duration_s"] = 100.0 if number == 0 else 1.0
    Path("earlier/ci.json").write_text(json.dumps(document))
    assert read_timings(Path("earlier/ci.json"))["replay s0"] == 100.0

    for number in (1, 2):
        run(["ci", "--shard", f"{number}/2", "--timings", "earlier/ci.json", "-o", "shards"])

    sizes = sorted(len(list(read_records(file))) for file in Path("shards").iterdir())
    assert sizes == [1, 5]
    assert run(["ci", "merge", "shards"]) == 1
    run(["ci", "--shard", "1/2", "-o", "shards"])
    capsys.readouterr()
    assert run(["ci", "merge", "shards"]) == 2
    assert "other --timings" in capsys.readouterr().err


def test_a_changed_case_does_not_go_with_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    suite(2, cases=["more"])
    Path("more").mkdir()
    case = {"id": "m", "input": "Where?", "contract": "default", "tool_responses": []}
    Path("more/m.yaml").write_text(json.dumps(case))
    run(["ci", "--shard", "1/2", "-o", "shards"])
    Path("more/m.yaml").write_text(json.dumps({**case, "input": "When?"}))
    run(["ci", "--shard", "2/2", "-o", "shards"])
    capsys.readouterr()

    assert run(["ci", "merge", "shards"]) == 2
    assert "they are of other cases" in capsys.readouterr().err


@pytest.mark.parametrize("directory", ["shards", ".replaykit/shards"])
def test_results_are_not_written_through_a_link(capsys: pytest.CaptureFixture[str], directory: str) -> None:
    suite(1)
    Path(directory).mkdir(parents=True)
    Path("elsewhere").write_text("as it was")
    Path(directory, "shard-1-of-2.jsonl").symlink_to(Path("elsewhere").absolute())

    assert run(["ci", "--shard", "1/2", *(["-o", directory] if directory == "shards" else [])]) == 2

    assert "is a symbolic link" in capsys.readouterr().err
    assert Path("elsewhere").read_text() == "as it was"


@pytest.mark.parametrize(
    "arguments",
    [
        ["--shard", "1/2", "--junit", "junit.xml"],
        ["--shard", "1/2", "-o", "ci.json"],
        ["--shard", "5/2"],
        ["--timings", "x.json"],
        ["--shard", "1/2", "--timings", "nowhere.json"],
        ["--reuse-workers", "--agent", "shard_agent:answer"],
        ["merge"],
        ["merge", "nowhere"],
        ["merge", "."],
        ["marge", "."],
    ],
)
def test_what_does_not_go_together_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str]) -> None:
    suite(1)

    assert run(["ci", *arguments]) in (2, 3)
    assert "error: " in capsys.readouterr().err.lower()


def test_the_memory_of_results_does_not_grow_with_them(tmp_path: Path) -> None:
    item = CiItem(part=CiPartName.REPLAY, id="x", outcome=CiOutcome.PASSED, verdict="fixed", reason="r" * 1000)
    records = []
    for number in range(2000):
        records.append(CiRecord(place=place_of(CiPartName.REPLAY, number), item=item, tally=Tally()))
    result = result_of(header(), [written(tmp_path / "r.jsonl", header(), records)])

    seen = iter(result.items)
    first, second = next(seen), next(seen)

    assert first is not second  # each is read when it is asked for
    assert len(result.items) == 2000
    assert [one.id for one in result.items[:2]] == ["x", "x (2)"]
    assert result.items[-1].id == "x (2000)"
    assert all(a != b for a, b in pairwise(one.id for one in result.items))
