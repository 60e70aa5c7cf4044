"""Which runs the cases of a project name."""

from __future__ import annotations

from pathlib import Path

import pytest

from replaykit.errors import InvalidFile
from replaykit.retention.prune import referenced_runs


def case(directory: str, text: str) -> None:
    Path(directory).mkdir(parents=True)
    Path(directory, "case.yaml").write_text(text)


def test_cases_are_looked_for_where_they_are_configured_and_in_their_usual_place() -> None:
    case("cases/a", "replaykit: 1\nid: a\nsource: {run: run-a}\n")
    case("elsewhere/deep/b", "replaykit: 1\nid: b\nsource: {run: run-b, trace: x.json}\n")
    case("not/asked/c", "replaykit: 1\nid: c\nsource: {run: run-c}\n")

    assert referenced_runs() == {"run-a"}
    assert referenced_runs([Path("elsewhere"), Path("nowhere")]) == {"run-a", "run-b"}
    assert referenced_runs([Path("cases/a/case.yaml")]) == {"run-a"}


def test_cases_that_name_no_run_and_other_files_name_nothing() -> None:
    case("cases/a", "replaykit: 1\nid: a\n")
    case("cases/b", "replaykit: 1\nid: b\nsource: {run: 5}\n")
    case("cases/c", "[1, 2]\n")
    Path("cases/session.yaml").write_text("id: s\ninput: hello\ncontract: c\n")
    Path("cases/notes.txt").write_text("source: {run: x}")
    assert referenced_runs() == set()


def test_a_case_that_is_wrong_elsewhere_still_names_its_run() -> None:
    case("cases/a", "replaykit: 99\nid: a\nunheard: of\nsource: {run: run-a}\n")
    assert referenced_runs() == {"run-a"}


def test_an_empty_directory_names_nothing() -> None:
    Path("cases").mkdir()
    assert referenced_runs() == set()


def test_a_case_that_cannot_be_read_is_an_error() -> None:
    case("cases/a", "source: {run: [\n")
    with pytest.raises(InvalidFile, match=r"cases/a/case.yaml"):
        referenced_runs()
