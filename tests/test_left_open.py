"""In development mode a test fails that leaves something open: `make test-dev` relies on it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LEAKING = """
import socket, sqlite3, subprocess, sys

def test_file():
    open("left.txt", "w")

def test_file_that_refers_to_itself():
    file = open("left.txt", "w")
    file.itself = file

def test_socket():
    socket.socket()

def test_database():
    sqlite3.connect("left.db")

def test_process():
    subprocess.run([sys.executable, "-c", "import socket; left = socket.socket()"], check=True)

def test_nothing():
    sqlite3.connect("closed.db").close()
"""
OPEN = {"test_file", "test_file_that_refers_to_itself", "test_socket"}
if sys.version_info >= (3, 13):
    OPEN |= {"test_database"}  # before, sqlite3 says nothing


@pytest.mark.exhaustive
def test_what_is_left_open_fails_its_test(tmp_path: Path) -> None:
    (tmp_path / "test_leaking.py").write_text(LEAKING)
    options = [
        "-c",
        str(ROOT / "pyproject.toml"),
        "-p",
        "tests.conftest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
    ]

    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *options, "test_leaking.py"],
        env={**os.environ, "PYTHONDEVMODE": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
    )

    summary = [line.split() for line in ran.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    assert {words[1].partition("::")[2] for words in summary} == OPEN, ran.stdout
    assert "ResourceWarning: unclosed" in ran.stdout
    _, _, of_processes = ran.stdout.partition("left open in processes that tests started")
    assert "unclosed <socket.socket" in of_processes
    assert "::test_process" in of_processes
