"""Redaction: find secrets and personal data in texts and values, and replace them by placeholders.

Pure but for two edges: `keys` keeps the project's key in a file, and `rule_files` reads rules. Knows the model; knows
nothing of stores, cases or terminals. Input is never trusted, so no input may raise.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from replaykit.redaction.finding import SecretFinding
    from replaykit.redaction.keys import project_key
    from replaykit.redaction.redactor import Redactor
    from replaykit.redaction.rule_files import load_rules
    from replaykit.redaction.rules import DEFAULT, Rules
    from replaykit.redaction.search import find

__all__ = ["DEFAULT", "Redactor", "Rules", "SecretFinding", "find", "load_rules", "project_key"]

_HOMES = {
    "DEFAULT": "rules",
    "SecretFinding": "finding",
    "Redactor": "redactor",
    "Rules": "rules",
    "find": "search",
    "load_rules": "rule_files",
    "project_key": "keys",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 (importing the package stays cheap until a name is used)

    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
