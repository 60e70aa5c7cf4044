"""Every way out of an isolated process tree that we know of, tried inside of one."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.isolation.outside import HERE, LANDLOCK_LETS_THROUGH, Attempts, Outside, attempts_at
from tests.isolation.techniques import TECHNIQUES

from replaykit.isolation import Level, support

NEEDS_MORE = {
    "far_address",
    "name_server",
    "resolved_name",
    "fast_open",
    "mptcp",
    "raw_socket",
    "packet_socket",
    "kernel_events",
    "virtual_machine_socket",
    "kernel_crypto",
    "bluetooth",
    "unix_socket_race",
    "change_attribute",
    "system_setting",
}
"""Techniques that fail without isolation, too, on some machines: no network, no such module, not root."""


@pytest.fixture(scope="module")
def attempts(tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))
    return attempts_at(tmp_path_factory.mktemp("full"), Level.FULL)


@pytest.fixture(scope="module")
def lesser_attempts(tmp_path_factory: pytest.TempPathFactory) -> Attempts:
    if support().level is Level.PROCESS or not support().landlock:
        pytest.skip("; ".join(support().reasons()))
    return attempts_at(tmp_path_factory.mktemp("landlock"), Level.LANDLOCK)


@pytest.mark.parametrize("name", TECHNIQUES)
def test_nothing_gets_out_of_full_isolation(attempts: Attempts, name: str) -> None:
    if attempts.answers[name].startswith("left out"):
        pytest.skip(attempts.answers[name])

    assert not attempts.got_through(name), TECHNIQUES[name].purpose


def test_no_server_outside_sees_a_connection(attempts: Attempts) -> None:
    assert attempts.connections == []


@pytest.mark.parametrize("name", [name for name, one in TECHNIQUES.items() if one.named])
def test_the_report_names_what_was_tried(attempts: Attempts, name: str) -> None:
    if attempts.answers[name].startswith("left out"):
        pytest.skip(attempts.answers[name])

    assert attempts.is_named(name), attempts.names()


def test_the_lesser_level_lets_through_what_its_table_says(lesser_attempts: Attempts) -> None:
    rows = []
    for name, technique in TECHNIQUES.items():
        answer = "through" if lesser_attempts.got_through(name) else lesser_attempts.answers[name].partition(":")[0]
        rows.append((technique.kind, name, answer, technique.purpose))
    for kind, name, answer, purpose in sorted(rows):
        print(f"| {kind} | {name} | {answer} | {purpose} |")

    passed = {name for _, name, answer, _ in rows if answer == "through"}

    assert passed <= LANDLOCK_LETS_THROUGH
    assert lesser_attempts.connections == []


def test_the_techniques_work_where_nothing_stops_them(tmp_path: Path) -> None:
    harmless = [name for name, one in TECHNIQUES.items() if one.kind in ("network", "files")]
    harmless += ["outlive", "root_of_other", "descriptors_of_other", "system_v_memory", "kill_other"]
    outside = Outside(tmp_path)
    facts, told = tmp_path / "facts.json", tmp_path / "answers.json"
    facts.write_text(json.dumps({**outside.facts, "names": harmless}))
    try:
        outside.proxy.close()
        # In a small process: each technique is tried in a fork, and a fork of all these tests takes long.
        subprocess.run([sys.executable, str(HERE / "techniques.py"), str(facts), str(told)], check=True, timeout=300)
        answers = json.loads(told.read_text())
        excused = NEEDS_MORE | {name for name in harmless if answers[name].startswith("left out")}
        expected = {name for name in harmless if answers[name] != "through"} - excused
        end = time.monotonic() + 60
        while not expected <= outside.changed() and time.monotonic() < end:
            pass  # a daemon takes a moment to become one
        missing = expected - outside.changed()
    finally:
        outside.close()

    assert not missing, {name: answers[name] for name in missing}
