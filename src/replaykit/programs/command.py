"""A command: as it is run, as a name, and as what may be written down of it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Sequence

from replaykit.model.values import sayable

HIDDEN = "hidden"
_SECRET = r"[\w-]*(?:api[-_]?key|token|secret|password|passwd|credentials?|authorization)"
_OPTION = re.compile(rf"(?i)--?{_SECRET}")
_ASSIGNED = re.compile(rf"(?i)(--?{_SECRET}|{_SECRET})=.+", re.DOTALL)
_VALUE = re.compile(r"(?i)\b(?:sk-|gh[pousr]_|xox[a-z]-|AIza)[\w-]{8,}|(?<=bearer )\S+|(?<=://)[^/@\s]+(?=@)")
_INTERPRETERS = re.compile(r"(?:python|node|bun|deno|ruby|perl|php|bash|sh|zsh|npx|tsx|ts-node|uv|poetry|pipenv)[\d.]*")
_SUBCOMMANDS = frozenset({"run", "exec"})


def name_of_command(command: Sequence[str]) -> str:
    """Return a name for the command's runs: the script's name if an interpreter runs one, else the program's."""
    words = [sayable(word) for word in command]
    while words and (_is_interpreter(words[0]) or words[0].startswith("-") or words[0] in _SUBCOMMANDS):
        if words[0] in ("-c", "-e", "-p", "--eval"):
            break
        if words[0] == "-m" and len(words) > 1:
            return words[1]
        words = words[1:]
    if not words or words[0].startswith("-"):
        return _stem(sayable(command[0]))
    return _stem(words[0])


def clean_command(command: Sequence[str]) -> list[str]:
    """The words of the command, secrets among them hidden: the values of options that bear such a name, and what looks
    like a key wherever it stands."""
    cleaned, is_value = [], False
    for word in map(sayable, command):
        assigned = _ASSIGNED.fullmatch(word)
        if is_value:
            cleaned.append(HIDDEN)
        elif assigned:
            cleaned.append(f"{assigned[1]}={HIDDEN}")
        else:
            cleaned.append(_VALUE.sub(HIDDEN, word))
        is_value = _OPTION.fullmatch(word) is not None
    return cleaned


def resolved(command: Sequence[str]) -> list[str]:
    """`python` means this interpreter where the machine has no program of that name."""
    if command[0] in ("python", "python3") and shutil.which(command[0]) is None:
        return [sys.executable, *command[1:]]
    return list(command)


def _is_interpreter(word: str) -> bool:
    return _INTERPRETERS.fullmatch(os.path.basename(word)) is not None


def _stem(word: str) -> str:
    return os.path.splitext(os.path.basename(word))[0] or word
