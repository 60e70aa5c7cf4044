"""The formats of trace files that can be read: as a list, and as the table in docs/importing.md.

`python -m replaykit.report.formats docs/importing.md` writes the part of that page between its two marks anew.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from replaykit.formats.core.registry import IMPORTERS
from replaykit.report.layout import table, to_json

BEGIN = "<!-- The registry's own words: python -m replaykit.report.formats docs/importing.md -->"
END = "<!-- So far the registry. -->"


def formats_text() -> str:
    """The formats, a line each."""
    return table(["format", "what it is"], [[name, title] for name, title in _formats()])


def formats_json() -> str:
    """The formats for programs."""
    found = [{"name": name, "title": title} for name, title in _formats()]
    return to_json({"replaykit": 1, "formats": found})


def page_with_formats(page: str) -> str:
    """The page, with the part between the marks as the registry has it."""
    before, _, rest = page.partition(BEGIN)
    _old, _, after = rest.partition(END)
    rows = [f"| `{name}` | {title.replace('|', chr(92) + '|')} |" for name, title in _formats()]
    lines = "\n".join(["| format | what it is |", "|---|---|", *rows])
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def _formats() -> Iterator[tuple[str, str]]:
    for importer in IMPORTERS.values():
        yield importer.name, importer.title


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page_with_formats(file.read_text(encoding="utf-8")), encoding="utf-8")
