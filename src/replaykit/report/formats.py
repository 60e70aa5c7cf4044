"""The formats of trace files that can be read: as a list, and as the table in docs/importing.md.

`python -m replaykit.report.formats docs/importing.md` writes the part of that page between its two marks anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from replaykit.formats.core.registry import IMPORTERS, Importer
from replaykit.report.layout import JsonResult, table, to_json

BEGIN = "<!-- The registry's own words: python -m replaykit.report.formats docs/importing.md -->"
END = "<!-- So far the registry. -->"


class TraceFormat(Struct, frozen=True, kw_only=True):
    """A format of trace files."""

    name: str
    """The name that --format takes."""
    title: str
    """What writes such files."""


class TraceFormats(JsonResult, frozen=True, kw_only=True):
    """The formats of trace files that can be imported."""

    formats: Sequence[TraceFormat]
    """The formats in the order in which a file is tried with them."""


def formats_text(importers: Sequence[Importer]) -> str:
    """The formats, a line each."""
    return table(["format", "what it is"], [[importer.name, importer.title] for importer in importers], is_cut=False)


def formats_json(importers: Sequence[Importer]) -> str:
    """The formats for programs."""
    formats = [TraceFormat(name=importer.name, title=importer.title) for importer in importers]
    return to_json(TraceFormats(formats=formats))


def page_with_formats(page: str) -> str:
    """The page, with the part between the marks as the registry has it."""
    before, _, rest = page.partition(BEGIN)
    _old, _, after = rest.partition(END)
    lines = "| format | what it is |\n|---|---|"
    for importer in IMPORTERS.values():
        lines += f"\n| `{importer.name}` | {importer.title.replace('|', chr(92) + '|')} |"
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page_with_formats(file.read_text(encoding="utf-8")), encoding="utf-8")
