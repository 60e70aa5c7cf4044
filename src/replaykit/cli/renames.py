"""Command lines as they used to be written, or as Flakestorm writes them, in the words of today."""

from __future__ import annotations

import os
from collections.abc import Mapping

MOVED: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("stats",): ("store", "stats"),
    ("verify",): ("store", "verify"),
    ("prune",): ("store", "prune"),
    ("keep",): ("store", "keep"),
    ("backup",): ("store", "backup"),
    ("restore",): ("store", "restore"),
    ("assertions",): ("help", "assertions"),
    ("schema",): ("help", "schema"),
    ("import", "formats"): ("help", "formats"),
    ("completion",): ("help", "completion"),
    ("review",): ("judge", "review"),
    ("scan",): ("redact", "scan"),
    ("checkpoints",): ("show", "--steps"),
    ("tree",): ("show", "--forks"),
    ("upgrade",): ("lint", "--upgrade"),
}
"""The words that a command used to be called by, and its words now."""
SYNONYMS: Mapping[str, str] = {
    "list": "runs",
    "ls": "runs",
    "history": "runs",
    "ui": "view",
    "open": "view",
    "inspect": "show",
    "diff": "compare",
    "run": "replay",
    "test": "replay",
    "new": "scaffold",
    "create": "scaffold",
    "validate": "lint",
    "check": "lint",
    "setup": "init",
    "config": "init",
    "formats": "help formats",
    "delete": "store prune",
    "clean": "store prune",
}
"""Words of other tools for what a command does, and the command to suggest for each."""
FLAKESTORM: Mapping[tuple[str, ...], tuple[str, ...]] = {
    ("replay", "run"): ("replay",),
    ("replay", "export"): ("export",),
}
"""Commands as Flakestorm spells them, and as they are spelled here."""
FLAGS: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("scaffold",): {"--run": "--select"},
    ("judge",): {"--record": "--ask-judge", "--result": "--result-file"},
    ("retape",): {"--answer": "--answers"},
    ("chaos", "run"): {"--runs": "--repeat", "--save": "--scaffold"},
    ("chaos", "mutate"): {"--record": "--ask-model"},
    ("import", "langsmith"): {"--run-id": "--trace"},
    ("import", "langfuse"): {"--project": "--all"},
    ("serve",): {"--quiet": "--idle"},
    ("resume",): {"--at": "--step"},
    ("fork",): {"--at": "--step", "--answer": "--response"},
    ("debug",): {"--at": "--step"},
    ("demo",): {"--dir": "--out"},
}
"""The flags of commands that had other names, by their old names."""


def current_words(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return a command line in the words of today, and what to tell whoever wrote it in older ones."""
    notes: list[str] = []
    for words, now in MOVED.items():
        if tuple(arguments[: len(words)]) == words:
            notes.append(f"`replaykit {' '.join(words)}` is now `replaykit {' '.join(now)}`")
            arguments = [*now, *arguments[len(words) :]]
            break
    arguments = _as_spelled_here(arguments)
    for words, flags in FLAGS.items():
        if tuple(arguments[: len(words)]) == words:
            return _with_current_flags(arguments, flags, notes), notes
    return arguments, notes


def _as_spelled_here(arguments: list[str]) -> list[str]:
    for words, here in FLAKESTORM.items():
        # `replaykit replay run` may mean a case of that name that lies here.
        if tuple(arguments[: len(words)]) == words and not os.path.exists(words[-1]):
            return [*here, *arguments[len(words) :]]
    return arguments


def _with_current_flags(arguments: list[str], flags: Mapping[str, str], notes: list[str]) -> list[str]:
    """Return the arguments with each old flag replaced; what stands behind `--` belongs to another program."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    current = []
    for argument in arguments[:end]:
        flag, equals, value = argument.partition("=")
        if flag in flags:
            notes.append(f"{flag} is now {flags[flag]}")
            flag = flags[flag]
        current.append(flag + equals + value)
    return current + arguments[end:]
