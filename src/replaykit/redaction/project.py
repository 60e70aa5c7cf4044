"""The redactor of a project: rules from beside its store's directory, the key from inside it."""

from __future__ import annotations

import os
import sys
from functools import cached_property
from pathlib import Path

from replaykit.config import HOME, default_store_path
from replaykit.redaction.keys import FILE, VARIABLE, project_key
from replaykit.redaction.redactor import Redactor
from replaykit.redaction.rules import DEFAULT, Rules

RULES_FILE = "redaction.toml"
RULES_VARIABLE = "REPLAYKIT_REDACTION_RULES"
"""Names a rule file that replaces the project's own in this process and its children."""
MODULES_VARIABLE = "REPLAYKIT_FINDERS"
"""Names a directory and modules with finders, for child processes of a command."""
SWITCH = "REPLAYKIT_REDACT"
_OFF = ("off", "0", "false", "no")


def is_on() -> bool:
    """Return False if the environment turns redaction off."""
    return os.environ.get(SWITCH, "").strip().lower() not in _OFF


class ProjectRedactor(Redactor):
    """A redactor with the key of a store's project. The key is created when the first value needs it."""

    def __init__(self, store: Path, *, foreign: bool = False) -> None:
        super().__init__(b"-", rules_beside(store))
        del self.key
        self._directory = store.parent
        self._foreign = foreign

    @property
    def has_key(self) -> bool:
        """True if the project has a key already."""
        return os.environ.get(VARIABLE) is not None or (self._directory / FILE).exists()

    @cached_property
    def key(self) -> bytes:  # type: ignore[override]
        import secrets  # noqa: PLC0415 (slow to import; most processes redact nothing)

        return secrets.token_bytes(32) if self._foreign and not self.has_key else project_key(self._directory)


def rules_beside(store: Path) -> Rules:
    """Return the rules of the store's project, or those that the environment names, with its finders."""
    rules = _rules_of_file(store)
    if "replaykit.redaction.finders" not in sys.modules and MODULES_VARIABLE not in os.environ:
        return rules
    from replaykit.redaction.finders import project_finders  # noqa: PLC0415 (few projects have finders)

    finders = project_finders()
    if not finders:
        return rules
    return rules.plus(Rules(finders=finders))


def _rules_of_file(store: Path) -> Rules:
    named = os.environ.get(RULES_VARIABLE)
    file = Path(named) if named else rules_file(store)
    if not file.is_file():
        return DEFAULT
    from replaykit.redaction.rule_files import load_rules  # noqa: PLC0415 (few projects have rules of their own)

    return load_rules(file)


def rules_file(store: Path) -> Path:
    """Return the path of the project's rule file, which may not exist."""
    home = store.parent
    return (home.parent if home.name == HOME else home) / RULES_FILE


def project_redactor(store: Path | None = None, *, foreign: bool = False) -> ProjectRedactor:
    """Return the redactor of the project in this directory, or of a store's project.

    With `foreign`, no key is created; without one, the placeholders are unique to this redactor.
    """
    return ProjectRedactor(default_store_path() if store is None else store, foreign=foreign)
