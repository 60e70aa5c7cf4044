"""Links in the place of `.replaykit`: those of a repository are not followed, a person's own are."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.git_repository import Repository

import replaykit as rk
from replaykit.candidates.evidence import new_workspace
from replaykit.config import default_evidence_path
from replaykit.errors import UsageError


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Repository:
    made = Repository.new(tmp_path / "repository")
    monkeypatch.chdir(made.top)
    monkeypatch.delenv("REPLAYKIT_STORE", raising=False)
    return made


@pytest.mark.parametrize("link", [".replaykit", ".replaykit/runs"])
def test_nothing_is_written_through_a_link_that_came_with_the_repository(
    repository: Repository, tmp_path: Path, link: str
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    place = repository.top / link
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(elsewhere)
    repository.commit()

    with pytest.raises(UsageError, match="came with the repository"):
        new_workspace(default_evidence_path(), "case")

    assert list(elsewhere.iterdir()) == []
    assert elsewhere.stat().st_mode & 0o777 == 0o755


def test_no_run_is_recorded_through_a_link_that_came_with_the_repository(
    repository: Repository, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (repository.top / ".replaykit").symlink_to(elsewhere)
    repository.commit()

    with pytest.raises(UsageError, match="came with the repository"), rk.record("agent"):
        pass

    assert list(elsewhere.iterdir()) == []


@pytest.mark.parametrize("is_in_git", [True, False])
def test_a_persons_own_link_is_followed(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_in_git: bool
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    if not is_in_git:
        (tmp_path / "plain").mkdir()
        monkeypatch.chdir(tmp_path / "plain")
    Path(".replaykit").symlink_to(elsewhere)

    workspace = new_workspace(default_evidence_path(), "case")

    assert (elsewhere / "runs" / workspace.name).is_dir()
