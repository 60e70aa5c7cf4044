"""Changed values: a value file that was redacted gets the name of its new content, and so do those who refer to it."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from replaykit.redaction.files import replace_file
from replaykit.value_files import VALUES, is_value_name, value_name


def rename_changed_values(files: Iterable[Path]) -> None:
    """Rename those of the files that are value files and hold something else than they are named after."""
    for file in files:
        name = f"{VALUES}/{file.name}"
        if file.parent.name != VALUES or not is_value_name(name):
            continue
        new_name = value_name(file.read_bytes())
        if new_name == name:
            continue
        fixtures = file.parent.parent
        file.replace(fixtures / new_name)
        for other in (*sorted(fixtures.glob("*.json")), *sorted(fixtures.parent.glob("*.json"))):
            _replace_name(other, name.encode(), new_name.encode())


def _replace_name(file: Path, name: bytes, new_name: bytes) -> None:
    if file.is_symlink() or not file.is_file():
        return
    text = file.read_bytes()
    if name in text:
        replace_file(file, text.replace(name, new_name))
