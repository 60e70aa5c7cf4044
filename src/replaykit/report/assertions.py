"""The kinds of assertion as text and JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence

from replaykit.checks.reference import FAMILIES, KindInfo, Parameter
from replaykit.report.layout import to_json
from replaykit.terminal import style

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")


def kinds_text(kinds: Sequence[KindInfo]) -> str:
    """Every kind by family, with its one line and an example each."""
    blocks = []
    for family, title in FAMILIES.items():
        rows = [info for info in kinds if info.family == family]
        lines = [line for info in rows for line in _lines(info)]
        if rows:
            blocks.append("\n".join([style(title, bold=True), *lines]))
    return "\n\n".join([*blocks, "All about one: replaykit assertions KIND"])


def kind_text(info: KindInfo) -> str:
    """All there is to know about one kind."""
    parameters = "\n".join(line for parameter in info.parameters for line in _parameter(parameter))
    examples = "\n".join(f"- {example}" for example in info.examples)
    parts = (style(info.kind, bold=True), _plain(info.text), parameters, examples)
    return "\n\n".join(part for part in parts if part)


def kinds_json(kinds: Sequence[KindInfo]) -> str:
    """The kinds for programs."""
    return to_json({"replaykit": 1, "assertions": kinds})


def _lines(info: KindInfo) -> list[str]:
    if info.examples:
        example = [style(f"      - {info.examples[0]}", dim=True)]
    else:
        example = []
    return [f"  {style(info.kind, fg='cyan')}  {_plain(info.line)}", *example]


def _parameter(parameter: Parameter) -> list[str]:
    default = f"{parameter.default} by default" if parameter.default else "required"
    description = ", ".join(part for part in (parameter.type, default) if part)
    return [f"  {style(parameter.name, fg='cyan')}  ({description})", f"      {_plain(parameter.meaning)}"]


def _plain(text: str) -> str:
    return _LINK.sub(r"\1", text)
