"""The sample files: one story as each vendor tells it, and runs of public benchmarks, each with its licence."""

from __future__ import annotations

from pathlib import Path

import zstandard

DATA = Path(__file__).parent / "data"
PACKED = ".zst"


def sample(name: str) -> Path:
    """The file in which an SDK tells the story, such as `openai_chat/messages.json`."""
    return _file(DATA / "samples" / name)


def corpus(name: str) -> Path:
    """A file of real runs, such as `tau-bench/gpt-4o-airline-trials-0-1.json`."""
    return _file(DATA / "corpora" / name)


def samples_below(directory: str) -> list[str]:
    """The names of all samples in a directory, as `sample` takes them."""
    return _names(DATA / "samples", directory)


def corpora_below(directory: str) -> list[str]:
    """The names of all files of a corpus, as `corpus` takes them."""
    return _names(DATA / "corpora", directory)


def unpacked(path: Path) -> bytes:
    """What a file holds, unpacked."""
    data = path.read_bytes()
    return zstandard.ZstdDecompressor().decompress(data) if path.suffix == PACKED else data


def _file(path: Path) -> Path:
    packed = path.with_name(path.name + PACKED)
    found = packed if packed.exists() else path
    assert found.exists(), f"no such sample: {path}"
    return found


def _names(room: Path, directory: str) -> list[str]:
    files = (file for file in (room / directory).rglob("*") if file.is_file() and file.name != "LICENSE")
    names = sorted(str(file.relative_to(room)).removesuffix(PACKED) for file in files)
    assert names, f"no samples in {directory}"
    return names
