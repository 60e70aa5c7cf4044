"""A case knows whether it was ever seen to fail: on which tape, with which signatures, and by whom."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from replaykit.cases.case import ReplayCase, load_case
from replaykit.cases.fixtures import write_fixtures
from replaykit.cases.lint import lint_case
from replaykit.cases.proof import ProofWriter, Standing, read_proof, standing_of
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.model.events import ToolCall
from replaykit.model.values import raw

SEARCH = ToolCall(seq=1, name="search", arguments_json=raw({"q": "x"}), result_json=raw("found"))
CASE = """\
replaykit: 2
id: case
scenario: {input: hello}
observed:
  - status_is: error
desired:
  - status_is: success
"""


@pytest.fixture
def case(tmp_path: Path) -> ReplayCase:
    directory = tmp_path / "case"
    directory.mkdir()
    (directory / "case.yaml").write_text(CASE)
    write_fixtures(directory, [SEARCH])
    return load_case(directory)


def changed(case: ReplayCase, old: str, new: str, name: str = "case.yaml") -> ReplayCase:
    file = case.directory / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return load_case(case.directory)


def test_a_case_that_nobody_has_seen_fail_says_so(case: ReplayCase) -> None:
    assert standing_of(case)[0] is Standing.NEVER_RED
    assert standing_of(case)[1] == "never seen red: nothing shows that this case can fail"


def test_a_case_that_was_seen_red_is_proven(case: ReplayCase) -> None:
    file = ProofWriter(case).write(red="python bad.py")

    assert file == case.directory / "proof.json"
    red = read_proof(case).red
    assert red is not None
    assert red.candidate == "python bad.py"
    assert standing_of(case) == (Standing.RED, "")


def test_a_green_alone_is_no_proof(case: ReplayCase) -> None:
    ProofWriter(case).write(green="python good.py")

    assert standing_of(case)[0] is Standing.NEVER_RED


@pytest.mark.parametrize(
    ("old", "new", "name", "why"),
    [
        ('"found"', '"lost"', "fixtures/search.json", "tape"),
        ('"x"', '"y"', "fixtures/search.json", "tape"),
        ("input: hello", "input: goodbye", "case.yaml", "tape"),
        ("  - status_is: error", "  - status_is: timeout", "case.yaml", "signatures"),
    ],
)
def test_a_proof_is_stale_when_what_it_was_seen_with_changes(
    case: ReplayCase, old: str, new: str, name: str, why: str
) -> None:
    ProofWriter(case).write(red="python bad.py")

    case = changed(case, old, new, name)

    assert standing_of(case)[0] is Standing.STALE
    assert standing_of(case)[1].startswith("not seen red since its ")
    assert why in standing_of(case)[1]


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("  - status_is: success", "  - final_output_exists: true", "case.yaml"),
        ("id: case", "id: case\ntitle: a title # and a comment", "case.yaml"),
        ("\n", "\r\n", "fixtures/search.json"),
        ("  ", "\t", "fixtures/search.json"),
        ('"replaykit": 3', '"replaykit": 1', "fixtures/search.json"),
    ],
)
def test_a_proof_holds_when_only_the_writing_or_the_wishes_change(
    case: ReplayCase, old: str, new: str, name: str
) -> None:
    ProofWriter(case).write(red="python bad.py")

    assert standing_of(changed(case, old, new, name))[0] is Standing.RED


def test_proving_again_what_is_proven_leaves_the_file_as_it_is(case: ReplayCase) -> None:
    ProofWriter(case).write(red="python bad.py", green="python good.py")
    file = case.directory / "proof.json"
    proof = json.loads(file.read_text())
    proof["red"]["at"] = proof["green"]["at"] = "2026-01-01T00:00:00Z"
    file.write_text(json.dumps(proof))

    assert ProofWriter(case).write(red="python bad.py", green="python good.py") is None
    assert ProofWriter(case).write(red="python worse.py") == file
    again = read_proof(case)
    assert again.red is not None
    assert again.red.candidate == "python worse.py"
    assert again.green is not None
    assert again.green.at == "2026-01-01T00:00:00Z"


def test_no_secret_gets_into_a_proof(case: ReplayCase) -> None:
    ProofWriter(case).write(red="API_KEY=sk-proj-abcdefghijklmnopqrstuvwxyz0123456789ABCD python bad.py")

    assert "abcdefghijklmnop" not in (case.directory / "proof.json").read_text()
    assert [problem for problem in lint_case(case.directory) if problem.code == "secret"] == []


@pytest.mark.parametrize("text", ["", "[]", '{"replaykit": 1, "red": 7}', "{"])
def test_a_damaged_proof_is_an_error_and_no_proof(case: ReplayCase, text: str) -> None:
    (case.directory / "proof.json").write_text(text)

    with pytest.raises(InvalidFile):
        read_proof(case)
    assert standing_of(case)[1].startswith("its proof cannot be read")
    assert [problem.code for problem in lint_case(case.directory)] == ["bad-proof"]


def test_a_proof_of_a_newer_version_says_so(case: ReplayCase) -> None:
    (case.directory / "proof.json").write_text('{"replaykit": 2, "red": "otherwise"}')

    with pytest.raises(FormatTooNew, match="proof format 2, this version reads up to 1"):
        read_proof(case)


def test_lint_warns_of_a_case_that_was_never_seen_red(case: ReplayCase) -> None:
    (problem,) = lint_case(case.directory)

    assert (problem.code, problem.severity) == ("never-red", "warning")
    assert problem.hint == f"Prove it: replaykit prove {case.directory} --bad CANDIDATE --good CANDIDATE"


def test_lint_warns_of_a_proof_that_no_longer_holds(case: ReplayCase) -> None:
    ProofWriter(case).write(red="python bad.py")
    case = changed(case, '"found"', '"lost"', "fixtures/search.json")

    assert [problem.code for problem in lint_case(case.directory)] == ["stale-proof"]


def test_lint_is_content_with_a_case_that_was_seen_red(case: ReplayCase) -> None:
    ProofWriter(case).write(red="python bad.py")

    assert lint_case(case.directory) == []


def test_lint_warns_of_a_case_without_a_signature_for_it_can_never_be_fixed(case: ReplayCase) -> None:
    case = changed(case, "observed:\n  - status_is: error\n", "")

    (problem,) = lint_case(case.directory)

    assert (problem.code, problem.severity) == ("no-observed", "warning")
    assert "can never be `fixed`" in problem.message
