"""Document every kind of assertion from its rule, for the terminal and for the docs.

`python -m replaykit.checks.reference docs/assertions.md` rewrites the generated part of that page.
"""

from __future__ import annotations

import inspect
import sys
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec import NODEFAULT, Struct

from replaykit.checks.reading import first
from replaykit.checks.rule import ASSERTIONS, Rule
from replaykit.model.values import JsonObject

FAMILIES = {
    "run": "How the run ended",
    "output": "The output",
    "tool": "Tool calls",
    "trajectory": "The order of tool calls",
    "steps": "Steps",
    "llm": "Model calls",
    "state": "The agent's state",
    "effect": "Side effects",
    "budget": "Cost, tokens and time",
    "replay": "Replay",
    "safety": "Data that must not leak",
    "span": "Calls and steps as spans",
    "judge": "Questions for a judge",
    "custom": "Checks in Python",
    "combining": "Combined assertions",
    "other": "From other packages",
}
"""Each family and its title, in display order."""

BEGIN = "<!-- The rules' own words: python -m replaykit.checks.reference docs/assertions.md -->"
END = "<!-- End of the rules' own words. -->"

_PLAIN = {
    msgspec.inspect.AnyType: "any value",
    msgspec.inspect.BoolType: "true or false",
    msgspec.inspect.StrType: "text",
    msgspec.inspect.IntType: "whole number",
    msgspec.inspect.FloatType: "number",
    msgspec.inspect.DictType: "mapping",
    msgspec.inspect.StructType: "mapping",
}


class Parameter(Struct, frozen=True):
    """One parameter of a kind."""

    name: str
    """The key."""
    type: str
    """The sort of value, in words."""
    default: str
    """The default in words; empty if the parameter is required."""
    meaning: str
    """The meaning of the parameter."""


class KindInfo(Struct, frozen=True):
    """The documentation of one kind of assertion."""

    kind: str
    """The kind's name in a case."""
    family: str
    """The family of the kind."""
    line: str
    """The assertion in one line."""
    text: str
    """The full documentation, including the first line."""
    parameters: tuple[Parameter, ...]
    """The keys of its value, if it takes a mapping."""
    examples: tuple[str, ...]
    """Examples as written in a case, in YAML."""


def kind_info(kind: str) -> KindInfo:
    """Return the documentation of a kind; a `UsageError` suggests the nearest one."""
    rule = ASSERTIONS.get(kind)
    text = inspect.cleandoc(rule.__doc__ or "")
    family = kind.partition(".")[0] if "." in kind else rule.family
    return KindInfo(
        kind=kind,
        family=family if family in FAMILIES else "other",
        line=text.partition("\n")[0],
        text=text,
        parameters=_parameters(rule),
        examples=rule.examples,
    )


def all_kinds() -> list[KindInfo]:
    """Return every kind, family by family."""
    families = list(FAMILIES)
    return sorted(map(kind_info, ASSERTIONS), key=lambda info: (families.index(info.family), "." in info.kind))


def reference_text() -> str:
    """Return the generated part of the page about assertions."""
    parts = []
    for family, kinds in groupby(all_kinds(), key=lambda info: info.family):
        parts += [f"## {FAMILIES[family]}", *map(_section, kinds)]
    return "\n\n".join(parts)


def page_with_reference(page: str) -> str:
    """Return the page with the part between the marks replaced."""
    before, _, rest = page.partition(BEGIN)
    _old, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{reference_text()}\n\n{END}{after}"


def _section(info: KindInfo) -> str:
    parts = [f"### `{info.kind}`", info.text]
    if info.parameters:
        rows = ["| parameter | type | default | meaning |", "|---|---|---|---|"]
        for parameter in info.parameters:
            default = parameter.default or "required"
            rows.append(f"| `{parameter.name}` | {parameter.type} | {default} | {parameter.meaning} |")
        parts.append("\n".join(rows))
    examples = [f"- {example}" for example in info.examples]
    parts.append("\n".join(["```yaml", *examples, "```"]))
    return "\n\n".join(parts)


def _parameters(rule: type[Rule]) -> tuple[Parameter, ...]:
    own = rule.schema()
    if own is not None:  # the rule parses its value itself
        return tuple(_described(own, name, meaning) for name, meaning in rule.notes.items())
    if not rule.named:
        return ()
    info = msgspec.inspect.type_info(rule)
    assert isinstance(info, msgspec.inspect.StructType)
    fields = {field.encode_name: field for field in info.fields}
    parameters = []
    for name in dict.fromkeys((*rule.notes, *fields)):
        if name in fields:
            field = fields[name]
            parameters.append(Parameter(name, _type(field.type), _default(field), rule.notes.get(name, "")))
    return tuple(parameters)


def _described(schema: JsonObject, name: str, meaning: str) -> Parameter:
    """Return a parameter from the rule's own schema."""
    form = first(schema.get("anyOf", [schema]), lambda form: "properties" in form) or schema
    words = {"array": "list", "string": "text", "number": "number", "integer": "whole number"}
    parameter_schema = form["properties"].get(name, {})
    kind = words.get(parameter_schema.get("type"), "any value")
    if "$ref" in parameter_schema:
        kind = "assertion"
    return Parameter(name, kind, "" if name in form.get("required", ()) else "none", meaning)


def _default(field: msgspec.inspect.Field) -> str:
    if field.required:
        return ""
    factory = field.default_factory
    value = field.default if factory is NODEFAULT else factory()
    if value in (None, NODEFAULT, {}, []):
        return "none"
    if value is not True:
        return f"`{msgspec.json.encode(value).decode()}`".replace('"', "")
    return "true"


def _type(kind: Any) -> str:
    if isinstance(kind, msgspec.inspect.Metadata):
        return _type(kind.type)
    if isinstance(kind, msgspec.inspect.UnionType):
        members = [member for member in kind.types if not isinstance(member, msgspec.inspect.NoneType)]
        return " or ".join(map(_type, members))
    if isinstance(kind, msgspec.inspect.LiteralType | msgspec.inspect.EnumType):
        return "one of the words"
    if isinstance(kind, msgspec.inspect.ListType):
        inner = _type(kind.item_type)
        if inner == "one of the words":
            return "list of words"
        return f"list of {inner}"
    return _PLAIN.get(type(kind), "value") + _bounds(kind)


def _bounds(kind: Any) -> str:
    least, most = getattr(kind, "ge", None), getattr(kind, "le", None)
    return (f" ≥ {least}" if least is not None else "") + (f" ≤ {most}" if most is not None else "")


if __name__ == "__main__":
    page = Path(sys.argv[1])
    page.write_text(page_with_reference(page.read_text(encoding="utf-8")), encoding="utf-8")
