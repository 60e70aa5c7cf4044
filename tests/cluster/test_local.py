"""`--on local`: the results are those of a run without it, and what dies takes nobody else's verdict along."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.cluster.suites import FAULT, KEY, evidence_files, result_of, suite, verdicts

from replaykit.cli import run
from replaykit.cluster.cluster import _ChunkSizes

ON = ("--on", "local", "-j", "2")
Capture = pytest.CaptureFixture[str]


def test_all_parts_give_the_result_and_the_evidence_of_a_serial_run(capsys: Capture) -> None:
    parts = {"inputs": ["1 fine"], "chaos": FAULT, "mutations": {"count": 2}}
    suite("lost", "fine", "crash", count=9, **parts)
    serial = result_of(capsys, "ci")
    files = evidence_files()
    shutil.rmtree(".replaykit")

    assert result_of(capsys, "ci", *ON) == serial
    assert evidence_files() == files
    assert serial[0] == 1


def test_a_replay_of_many_cases_is_that_of_a_serial_run(capsys: Capture) -> None:
    suite("lost", "fine", "crash", count=5)
    serial = result_of(capsys, "replay", "replays", "--repeat", "2")
    files = evidence_files()
    shutil.rmtree(".replaykit")

    assert result_of(capsys, "replay", "replays", "--repeat", "2", *ON) == serial
    assert evidence_files() == files


@pytest.mark.exhaustive
def test_faults_strike_as_they_do_in_a_serial_run(capsys: Capture) -> None:
    suite(count=3, chaos=FAULT)

    assert result_of(capsys, "chaos", "run", "--repeat", "2", *ON) == result_of(capsys, "chaos", "run", "--repeat", "2")
    assert result_of(capsys, "replay", "replays", "--chaos", "api_outage", *ON) == result_of(
        capsys, "replay", "replays", "--chaos", "api_outage"
    )


def test_sessions_in_the_configuration_are_replayed(capsys: Capture) -> None:
    suite(count=1)
    session = json.loads(Path("replays/s000.json").read_text())
    shutil.rmtree("replays")
    suite(count=0, cases=[], replays={"sessions": [{**session, "id": name} for name in ("a", "b")]})

    code, document = result_of(capsys, "ci", *ON)

    assert (code, verdicts(document)) == (0, {"a": "fixed", "b": "fixed"})


def test_files_that_are_wrong_are_items_and_the_others_run(capsys: Capture) -> None:
    suite(count=4)
    Path("replays/s001.json").write_text('{"id": "s001", "input": 1, "tool_responses": 7, "contract": "default"}')
    serial = result_of(capsys, "ci")

    assert result_of(capsys, "ci", *ON) == serial
    assert serial[0] == 2


def test_an_agent_that_cannot_be_loaded_leaves_the_same_evidence(capsys: Capture) -> None:
    suite(count=2, agent={"type": "python", "endpoint": "shop:nobody"})
    serial = result_of(capsys, "ci")
    files = evidence_files()
    shutil.rmtree(".replaykit")

    assert result_of(capsys, "ci", *ON) == serial
    assert evidence_files() == files
    assert serial[0] == 3
    assert serial[1]["items"][0]["evidence"]


def test_a_case_that_kills_its_process_each_time_is_inconclusive_alone(capsys: Capture) -> None:
    suite("fine", "process")

    code, document = result_of(capsys, "ci", *ON)

    found = verdicts(document)
    assert found.pop("s001") == "inconclusive"
    assert found == {f"s{number:03}": "fixed" for number in range(12) if number != 1}
    reason = next(item["reason"] for item in document["items"] if item["id"] == "s001")
    assert reason == "the process that ran it died 3 times: signal 9, signal 9, signal 9"
    assert code == 3


def test_what_is_required_of_a_replay_is_required_on_workers(capsys: Capture) -> None:
    suite(count=2)

    for option in (("--require-proof",), ("--require-isolation", "full")):
        serial = result_of(capsys, "ci", *option)
        assert result_of(capsys, "ci", *ON, *option) == serial
        assert serial[0] == 1


def test_the_working_tree_is_left_alone(capsys: Capture) -> None:
    suite(count=2)
    Path("shop.py").write_text(
        Path("shop.py").read_text().replace("status = lookup", "open('new', 'w')\n    status = lookup")
    )

    result_of(capsys, "ci", *ON)

    assert not Path("new").exists()


def test_redacted_tapes_are_compared_under_the_key_of_this_machine(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(".replaykit").mkdir()
    Path(".replaykit/redaction.key").write_text(KEY.hex())
    suite("redacted", count=2)
    serial = result_of(capsys, "replay", "replays")

    assert result_of(capsys, "replay", "replays", *ON) == serial
    assert serial[0] == 0
    assert serial[1]["results"][0]["deviations"] == []


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["ci", "--allow-write", "."], "--allow-write names a directory of this machine"),
        (["replay", "replays", "--keep-writes", "kept"], "--keep-writes names a directory of this machine"),
        (["ci", "--allow-connect", "/run/agent.sock"], "is a socket of this machine"),
        (["replay", "replays", "--runner-cmd", "true"], "--on runs agents in Python"),
        (["replay", "replays", "--endpoint", "http://127.0.0.1:9"], "--on runs agents in Python"),
        (["ci", "-c", "../replaykit.yaml"], "is outside of"),
    ],
)
def test_what_workers_cannot_do_is_refused(
    arguments: list[str], reason: str, capsys: Capture, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    suite(count=1)
    if "-c" in arguments:
        Path("inner").mkdir()
        monkeypatch.chdir(tmp_path / "inner")

    code = run([*arguments, *ON])

    assert code == 2
    assert reason in capsys.readouterr().err


def test_an_address_that_is_none_is_refused(capsys: Capture) -> None:
    suite(count=1)

    assert run(["ci", "--on", "spark://somewhere"]) == 2
    assert "expected local or dask://HOST:PORT" in capsys.readouterr().err


def test_a_case_that_was_not_sent_is_an_error_not_a_verdict(capsys: Capture, tmp_path: Path) -> None:
    suite(count=2)
    Path("replays").rename(tmp_path / "elsewhere")
    Path("replays").symlink_to("elsewhere")

    code = run(["ci", *ON])

    error = capsys.readouterr().err
    assert code == 2
    assert "note: replays is not sent: the link leads elsewhere" in error
    assert "replays/s000.json is not in the bundle" in error


def test_chunks_take_about_a_second_and_get_small_towards_the_end() -> None:
    sizes = _ChunkSizes(10_000)
    first = sizes.next(2)
    for _ in range(100):
        sizes.add(0.005)
    found = [first]
    while sum(found) < 10_000:
        found.append(sizes.next(2))

    assert first == 8
    assert found[1] == 200
    assert sum(found) == 10_000
    assert found[-1] == 1
    assert found == [first, *sorted(found[1:], reverse=True)]
