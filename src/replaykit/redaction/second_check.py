"""A second check, with its own rules, of everything that leaves the machine.

The redacting check cannot see what it missed. This one shares no rule with it: its patterns are in `second_check.toml`,
in the format of gitleaks, and it searches random text next to telling words. It replaces nothing; its findings block,
with file, line and rule.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

from replaykit.model.text_lines import words_of
from replaykit.redaction.forms import DOMAIN
from replaykit.redaction.pieces import Pieces, pieces_of
from replaykit.redaction.placeholders import placeholders_in
from replaykit.redaction.plausible_values import entropy
from replaykit.redaction.redactor import LEAST_BYTES
from replaykit.redaction.rule_files import load_rules
from replaykit.redaction.rules import RedactionRule, Rules, sha256_of

RULES_FILE = Path(__file__).with_name("second_check.toml")
ENTROPY_RULE = "random-beside-a-telling-word"
_LEAST_ENTROPY = 3.6
_TELLING = (
    "secret", "passw", "passphrase", "pwd", "token", "apikey", "api key", "api_key", "api-key", "access key",
    "access_key", "accesskey", "private key", "private_key", "credential", "authoriz", "bearer", "signing key",
    "signing_key",
)  # fmt: skip
_VALUE = re.compile(
    r"[\w-]{0,12}[^\n\r,;{}\[\]<>()]{0,30}?(?:[\"'`=:]|\s){1,3}([A-Za-z0-9+/_~-][A-Za-z0-9+/_.~-]{15,511}+={0,2}+)(?!\()"
)
# Words before `token` that make it harmless.
_OTHER_SENSE = re.compile(
    r"(?:page|next|continuation|cursor|sync|max|min|num|stop|eos|bos|csrf)[\w ]{0,3}\Z", re.IGNORECASE
)
_KIND_BEFORE = re.compile(r"[a-z]{2,10}[_-]")  # an id with its kind as prefix: `msg_…`, `chatcmpl-…`
_ENDINGS = frozenset(words_of("py js ts go md json yaml yml com org io net"))  # endings of files and hosts


_REACH = 1024  # how much context rules see on each side


class Suspicion(Struct, frozen=True):
    """A finding of the second check: its rule, its span, and the hash that allows it."""

    rule: str
    start: int
    end: int
    allowance: str


class SecondCheck:
    """The second check for several files; checks repeated parts only once."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules
        self._passed: set[bytes] = set()

    def suspicions(self, data: bytes) -> list[Suspicion]:
        """Return the findings in a file."""
        if len(data) >= LEAST_BYTES:
            pieces = pieces_of(data)
            if pieces is not None and self._pass(pieces):
                return []
        return suspicions_in(data.decode("utf-8", "surrogateescape"), self._rules)

    def _pass(self, pieces: Pieces) -> bool:
        """Return whether the pieces, the rest, and the surroundings of all borders are clean."""
        borders = (pieces.text[max(0, at - _REACH) : at + _REACH] for at, _, _ in pieces.borders())
        return all(map(self._passes, (*pieces.texts, pieces.rest, *borders)))

    def _passes(self, part: bytes) -> bool:
        if part not in self._passed:
            if suspicions_in(part.decode("utf-8", "surrogateescape"), self._rules):
                return False
            self._passed.add(part)
        return True


def suspicions_in(text: str, rules: Rules) -> list[Suspicion]:
    """Return the findings of the second check in order, without placeholders and allowed values."""
    placeholders = placeholders_in(text.encode("ascii", "replace"))
    found: dict[tuple[int, int], Suspicion] = {}
    for name, start, end in (*_by_rules(text), *_by_entropy(text)):
        value = text[start:end]
        is_placeholder = any(known.start < end and start < known.end for known in placeholders) or DOMAIN in value
        if not is_placeholder and not rules.allows(value):
            found.setdefault((start, end), Suspicion(name, start, end, sha256_of(value)))
    return [found[span] for span in sorted(found)]


def _by_rules(text: str) -> Iterator[tuple[str, int, int]]:
    low = text.lower().encode("ascii", "replace")
    if len(low) != len(text):
        low = text.encode("ascii", "replace").lower()  # a letter changed its length with its case
    for rule in _rules():
        for first, last in rule.windows(low):
            for match in rule.pattern.finditer(text, first, last):
                if match[rule.group] and (not rule.entropy or entropy(match[rule.group]) > rule.entropy):
                    yield rule.kind, *match.span(rule.group)


@cache
def _rules() -> tuple[RedactionRule, ...]:
    return load_rules(RULES_FILE).extra


def _by_entropy(text: str) -> Iterator[tuple[str, int, int]]:
    low = text.lower()
    if len(low) != len(text):
        return
    for word in _TELLING:
        at = low.find(word)
        while at >= 0:
            match = _VALUE.match(text, at + len(word))
            if match and not _OTHER_SENSE.search(text[max(0, at - 16) : at]) and _is_random(match[1]):
                yield ENTROPY_RULE, *match.span(1)
            at = low.find(word, at + len(word))


def _is_random(value: str) -> bool:
    """Return whether a value has upper case, lower case and digits in random order: no id, name, path or sentence."""
    body = value.rstrip("=.")
    has_all = body != body.lower() and body != body.upper() and sum(char.isdigit() for char in body) > 1
    is_name = _KIND_BEFORE.match(body) is not None or body.rpartition(".")[2] in _ENDINGS
    return has_all and not is_name and entropy(body) >= _LEAST_ENTROPY
