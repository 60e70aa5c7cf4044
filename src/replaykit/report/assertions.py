"""The kinds of assertion as text and JSON."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence

from replaykit.checks.reference import FAMILIES, KindInfo, Parameter
from replaykit.report.layout import JsonResult, line_width, table, to_json
from replaykit.terminal import style


class AssertionKinds(JsonResult, frozen=True, kw_only=True):
    """The kinds of assertion that a case can make."""

    assertions: Sequence[KindInfo]
    """Every kind, family by family; or the one that was named."""


_TEXT_WIDTH = 100  # columns: longer lines are hard to read
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def kinds_text(kinds: Sequence[KindInfo]) -> str:
    """Every kind by family, with its one line and an example each."""
    blocks = []
    for family, title in FAMILIES.items():
        lines = [style(title, bold=True)]
        for info in kinds:
            if info.family == family:
                lines.append(f"  {style(info.kind, fg='cyan')}  {_plain(info.line)}")
                lines += [style(f"      - {example}", dim=True) for example in info.examples[:1]]
        if len(lines) > 1:
            blocks.append("\n".join(lines))
    return "\n\n".join([*blocks, "Details of one: replaykit help assertions KIND"])


def kind_text(info: KindInfo) -> str:
    """All there is to know about one kind."""
    parameters = "\n".join(map(_parameter, info.parameters))
    examples = "\n".join(f"- {example}" for example in info.examples)
    parts = (style(info.kind, bold=True), _filled(_plain(info.text)), parameters, examples)
    return "\n\n".join(filter(None, parts))


def kinds_json(kinds: Sequence[KindInfo]) -> str:
    """The kinds for programs."""
    return to_json(AssertionKinds(assertions=kinds))


def _parameter(parameter: Parameter) -> str:
    default = f"{parameter.default} by default" if parameter.default else "required"
    description = ", ".join(filter(None, (parameter.type, default)))
    return f"  {style(parameter.name, fg='cyan')}  ({description})\n      {_plain(parameter.meaning)}"


def _filled(text: str) -> str:
    """Return paragraphs and tables of Markdown laid out for the terminal, whatever their width in the source."""
    width = min(line_width(), _TEXT_WIDTH)
    blocks = []
    for block in text.split("\n\n"):
        if block.startswith("|"):
            head, _rule, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in block.split("\n"))
            blocks.append(table(head, rows, is_cut=False))
        else:
            blocks.append(textwrap.fill(block, width))
    return "\n\n".join(blocks)


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", text)
