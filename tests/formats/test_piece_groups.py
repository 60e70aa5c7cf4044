"""Lines put together by what they belong to, in memory and beyond it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples

from replaykit.errors import InvalidFile
from replaykit.formats.core import piece_groups
from replaykit.formats.core.piece_groups import PieceGroups

PIECES = st.lists(st.tuples(st.sampled_from("abc"), st.binary(max_size=400), st.integers(1, 2**40)), max_size=40)


@settings(max_examples=examples(60))
@given(PIECES, st.sampled_from([0, 300, 1500, 10**9]))
def test_every_piece_comes_back_with_its_key_in_order_whether_it_was_spilled_or_not(
    pieces: list[tuple[str, bytes, int]], budget: int
) -> None:
    expected: dict[str, list[tuple[bytes, int, int]]] = {}
    with PieceGroups("f", budget) as gathered:
        for note, (key, text, line) in enumerate(sorted(pieces, key=lambda piece: piece[2])):
            expected.setdefault(key, []).append((text, line, note))
            gathered.add(key, text, line, note)
        assert all(gathered.holds(key) is (key in expected) for key in "abcd")

        assert sorted(gathered.groups()) == sorted(expected.items())


def test_keys_come_in_the_order_of_their_first_piece() -> None:
    with PieceGroups("f", 250) as gathered:
        for key in ("z", "a", "z", "m", "a"):
            gathered.add(key, b"x" * 10, 1)
        assert [key for key, _pieces in gathered.groups()] == ["z", "a", "m"]


def test_what_is_spilled_has_no_name_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with PieceGroups("f", 10) as gathered:
        gathered.add("k", b"a secret" * 10, 1)
        assert list(tmp_path.iterdir()) == []
        assert list(gathered.groups()) == [("k", [(b"a secret" * 10, 1, 0)])]


def test_a_disk_that_takes_only_a_part_at_once_gets_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.writev
    monkeypatch.setattr(piece_groups.os, "writev", lambda file, texts: whole(file, [texts[0][:3]]))
    with PieceGroups("f", 10) as gathered:
        gathered.add("k", b"0123456789" * 20, 7)
        assert list(gathered.groups()) == [("k", [(b"0123456789" * 20, 7, 0)])]


def test_a_full_disk_is_an_error_that_says_where_else_it_could_go(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_file: int, _texts: list[bytes]) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(piece_groups.os, "writev", full)
    with PieceGroups("big.jsonl", 10) as gathered, pytest.raises(InvalidFile, match="No space left") as caught:
        gathered.add("k", b"x" * 20, 1)
    assert "TMPDIR" in str(caught.value.hint)


LETTERS = b"abcdefghijklmnopqrstuvwxyz"


@pytest.fixture
def original(tmp_path: Path) -> Iterator[PieceGroups]:
    """Of a file that is too large to be held."""
    file = tmp_path / "f.jsonl"
    file.write_bytes(LETTERS)
    with PieceGroups(str(file), 10, original=file.open("rb")) as gathered:
        yield gathered


def test_of_a_large_file_only_places_are_kept(original: PieceGroups, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    for key, place, line in (("x", 3, 1), ("y", 0, 2), ("x", 25, 3)):
        original.add_place(key, place, 1, line, note=place)

    assert original.reads_again
    assert [original.holds(key) for key in "xyz"] == [True, True, False]
    assert list(original.groups()) == [("x", [(b"d", 1, 3), (b"z", 3, 25)]), ("y", [(b"a", 2, 0)])]


def test_pieces_of_all_sorts_come_in_the_order_of_their_lines(original: PieceGroups) -> None:
    original.add("k", b"in the temporary file", 1)
    original.add_place("k", 0, 2, 2)
    original.add("k", b"held", 3)
    original.add_place("k", 2, 2, 4)

    ((_key, pieces),) = original.groups()

    assert [text for text, _line, _note in pieces] == [b"in the temporary file", b"ab", b"held", b"cd"]


def test_a_file_that_can_be_held_is_not_read_again(tmp_path: Path) -> None:
    file = tmp_path / "f.jsonl"
    file.write_bytes(LETTERS)
    with PieceGroups(str(file), len(LETTERS), original=file.open("rb")) as gathered:
        assert not gathered.reads_again
    with PieceGroups(str(file), 0) as gathered:
        assert not gathered.reads_again


def test_a_file_that_somebody_still_writes_to_is_read_as_far_as_it_goes(original: PieceGroups, tmp_path: Path) -> None:
    original.add_place("k", 2, 2, 1)
    with (tmp_path / "f.jsonl").open("ab") as file:
        file.write(b"more\n")

    assert [text for _key, pieces in original.groups() for text, _line, _note in pieces] == [LETTERS[2:4]]


@pytest.mark.parametrize("text", [LETTERS[:20], b""])
def test_a_file_that_changes_while_it_is_read_is_an_error(original: PieceGroups, tmp_path: Path, text: bytes) -> None:
    original.add_place("k", 22, 2, 1)
    (tmp_path / "f.jsonl").write_bytes(text)

    with pytest.raises(InvalidFile, match="changed while it was read") as caught:
        list(original.groups())
    assert "replaykit import - <" in str(caught.value.hint)


def test_a_file_of_the_same_size_is_another_one_when_it_was_written_later(
    original: PieceGroups, tmp_path: Path
) -> None:
    original.add_place("k", 0, 2, 1)
    (tmp_path / "f.jsonl").write_bytes(LETTERS.upper())
    os.utime(tmp_path / "f.jsonl", ns=(1, 1))

    with pytest.raises(InvalidFile, match="changed"):
        list(original.groups())


@pytest.mark.parametrize("is_there", [True, False])
def test_a_file_that_takes_the_name_of_the_one_that_was_opened_is_not_read(
    original: PieceGroups, tmp_path: Path, is_there: bool
) -> None:
    (tmp_path / "f.jsonl").unlink()
    if is_there:
        (tmp_path / "other").write_bytes(LETTERS)
        (tmp_path / "other").rename(tmp_path / "f.jsonl")

    with pytest.raises(InvalidFile, match="changed"):
        original.add_place("k", 0, 2, 1)
