"""Search a text for all findings, by form, name and checksum; overlapping ones are merged."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from replaykit.redaction.addresses import email_hits, ip_hits, url_hits
from replaykit.redaction.encoded import MAX_DEPTH, encoded_hits, percent_hits
from replaykit.redaction.finding import Hit, SecretFinding, settled
from replaykit.redaction.json_text import looks_like_json
from replaykit.redaction.lazy_patterns import lazy, lazy_automaton
from replaykit.redaction.name_hints import NUMBER_STEMS, STEMS
from replaykit.redaction.named_values import assigned_hits
from replaykit.redaction.national_ids import NAMES_OF_IDS
from replaykit.redaction.numbers import number_hits
from replaykit.redaction.phrases import (
    PHRASE_NAMES,
    PROGRAMS,
    SEED_NAMES,
    VENDOR_WORDS,
    command_hits,
    phrase_hits,
    vendor_hits,
)
from replaykit.redaction.plausible_values import entropy, hides_more
from replaykit.redaction.prefilter import is_plainly_clean, passes_quick_look
from replaykit.redaction.rules import DEFAULT, RedactionRule, Rules, matches_any
from replaykit.redaction.tables import sql_hits
from replaykit.redaction.text_view import Trait, View
from replaykit.redaction.tokens import long_runs, secret_hits, token_hits

_OTHER_LITERALS = b"private basic curl insert iban :: :// :thin: [at] (at) sig= signature= security-token=".split()
_PHRASES = (*PHRASE_NAMES, *SEED_NAMES)
# Words and signs that rules start with. Most texts have few, and skip all other rules.
_LITERALS = tuple(
    dict.fromkeys((*STEMS, *NUMBER_STEMS, *_OTHER_LITERALS, *NAMES_OF_IDS, *VENDOR_WORDS, *PROGRAMS, *_PHRASES))
)
_AUTOMATON = lazy_automaton(_LITERALS)
_NOTHING: frozenset[bytes] = frozenset()
_PLUS = lazy(r"\+(?<=[0-9A-Z]\+)(?=[0-9A-Z])")


def find(text: str, rules: Rules = DEFAULT) -> list[SecretFinding]:
    """Return the spans of all values to redact, in order and without overlaps."""
    if rules.are_usual and is_plainly_clean(text.encode("utf-8", "surrogatepass")):
        return []
    return [SecretFinding(hit.kind, hit.start, hit.end) for hit in hits_in(text, rules)]


def hits_in(text: str, rules: Rules, depth: int = 0, around: int = 0) -> list[Hit]:
    """Return hits with their spelling. `around` are the traits of the surrounding text."""
    if len(text) < 3:
        return []
    if len(text) >= LEAST_CHARS and rules.are_usual:
        around |= View(text).traits
        return long_hits(text, lambda part: _hits_in(part, rules, depth, around))
    return _hits_in(text, rules, depth, around)


def _hits_in(text: str, rules: Rules, depth: int, around: int) -> list[Hit]:
    view = View(text, around)
    literals = _literals_in(view.low)
    hits = view.findings
    runs = long_runs(view)
    if runs:
        hits.extend(token_hits(view, runs))
    hits.extend(secret_hits(view, hits, literals))
    if not literals.isdisjoint(PROGRAMS):
        hits.extend(command_hits(view))
    if not literals.isdisjoint(_PHRASES):
        hits.extend(phrase_hits(view))
    if not literals.isdisjoint(VENDOR_WORDS) or (runs and b"AC" in view.flat):
        hits.extend(vendor_hits(view))
    if b"insert" in literals and b"values" in view.low:
        hits.extend(sql_hits(view, rules))
    logins = list(url_hits(view, literals))
    for email in email_hits(view, literals):
        if not _is_login(email, logins):
            hits.append(email)
    hits.extend(logins)
    has_fields = view.traits & Trait.FIELDS == Trait.FIELDS
    if b"0" in view.shape:
        hits.extend(number_hits(view, literals))
        if has_fields and _PLUS.search(text):
            plain = View(_PLUS.sub(" ", text))  # in a query, a plus is a blank
            hits.extend(number_hits(plain, _literals_in(plain.low)))
        hits.extend(ip_hits(view, literals))
    hits.extend(list(assigned_hits(view, rules, literals)))
    if depth < MAX_DEPTH:

        def deeper(inner: str) -> list[Hit]:
            return hits_in(inner, rules, depth + 1)

        if b"%" in view.flat or has_fields:
            hits.extend(percent_hits(view, deeper))
        hits.extend(encoded_hits(view, runs, deeper))
    for rule in rules.extra:
        hits.extend(_pattern_hits(view, rule))
    for named in rules.finders:
        hits.extend(named.hits(text))
    if not hits:
        return hits
    if rules.allow or rules.allow_patterns:
        hits = [hit for hit in hits if not rules.allows(text[hit.start : hit.end], is_own=hit.is_own)]
    return settled([hit for hit in hits if not _is_redacted(view.flat[hit.start : hit.end])], text)


def _literals_in(low: bytes) -> frozenset[bytes]:
    """Return which of the literals are in a lower-case text."""
    found = _AUTOMATON.find_matches_as_indexes(low, overlapping=True)
    if not found:
        return _NOTHING
    return frozenset([_LITERALS[index] for index, _, _ in found])


def _is_login(email: Hit, logins: list[Hit]) -> bool:
    """Return whether this is the end of a password and the host after it: `://u:p@ss@host.example`."""
    return any(login.start <= email.start < login.end < email.end for login in logins)


def _is_redacted(flat: bytes) -> bool:
    """Return whether placeholders replaced the whole value."""
    return b"<<<<" in flat and not hides_more(flat)


def _pattern_hits(view: View, rule: RedactionRule) -> Iterator[Hit]:
    """Yield the findings of a project's pattern, around its keywords and in windows, so that none can hang."""
    for start, end in rule.windows(view.low):
        first = start
        for found in rule.pattern.finditer(view.text, start, end):
            begin = found.start()
            if rule.lead_in:
                begin = rule.lead_in.start(found, first)
            first = found.end()
            if _is_secret(rule, found[rule.group], view.text[begin:first]):
                yield Hit(rule.kind, *found.span(rule.group), 3, is_own=True)


def _is_secret(rule: RedactionRule, value: str | None, whole: str) -> bool:
    if not value or (rule.entropy and entropy(value) <= rule.entropy):
        return False
    lowered = value.lower()
    if any(word in lowered for word in rule.stopwords):
        return False
    return not matches_any(rule.allow, value) and not matches_any(rule.allow, whole)


# Long texts. A search costs twenty times as much as the quick check, which most of a 50 MB result passes. Only the
# parts that fail it are searched, with enough context around them.

LEAST_CHARS = 128 * 1024
"""Shorter texts are searched as a whole."""
STEP = 16 * 1024
_NEAR = 512  # how far rules look ahead before they start
_AROUND = 4096  # how far rules see once they have started; a rule with a finding there may go on
_SAMPLES = 16
_KEY, _LONGEST_KEY = "-----BEGIN", 20_000
Search = Callable[[str], list[Hit]]


def long_hits(text: str, search: Search, step: int = STEP) -> list[Hit]:
    """Return what a search of the whole text would find."""
    if not _is_mostly_clean(text, step):
        return search(text)
    stretches = list(_stretches(text, step))
    if sum(end - start for start, end in stretches) * 2 > len(text):
        return search(text)
    hits: list[Hit] = []
    first = done = 0
    for start, end in stretches:
        if end <= done:
            continue
        if start - _AROUND >= done:
            first = start - _AROUND
        else:  # continues the previous search
            hits = [hit for hit in hits if hit.end <= first]
        found, done = _searched(text, first, end, search)
        begin = first and first + _AROUND - _NEAR
        hits += [hit for hit in found if hit.end > begin]
    return hits


def _is_mostly_clean(text: str, step: int) -> bool:
    """Return False if half of the samples fail the check, so that checking all parts would not pay off."""
    samples = range(0, len(text), max(step, len(text) // _SAMPLES))
    passed = 0
    for at in samples:
        passed += _passes(text[at : at + step])
    return passed * 2 > len(samples)


def _stretches(text: str, step: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of the text to search; adjacent ones are merged."""
    start = end = -1
    for at in range(0, len(text), step):
        if _passes(text[max(0, at - _NEAR) : at + step + _NEAR]):
            continue
        if start < 0 or at - end > 2 * _AROUND:
            if start >= 0:
                yield start, end
            start = at
        end = min(len(text), at + step)
    if start >= 0:
        yield start, end


def _passes(text: str) -> bool:
    return passes_quick_look(text.encode("utf-8", "surrogatepass"))


def _searched(text: str, first: int, end: int, search: Search) -> tuple[list[Hit], int]:
    """Return the hits from `first` on and where the search stopped: it goes on while there are hits near the end."""
    reach = _AROUND
    while True:
        last = min(len(text), max(end + reach, text.rfind(_KEY, first, end) + _LONGEST_KEY))
        hits = search(text[first:last])
        ends_near = any(hit.end > last - first - _AROUND // 2 for hit in hits)
        if last == len(text) or not ends_near:
            return [hit.moved(first) for hit in hits], last
        reach *= 4


_LEAST_BYTES = 64 * 1024
_MOST_TEXTS = 100_000


class HitlessTexts:
    """Remembers, by SHA-256, long texts without a finding.

    Writing a case searches a text twice with the same rules: before it is written, and in the written file. A hash
    takes a hundredth of the time of a search: scaffolding a run with 100 MB of plain-text results takes 10 s instead of
    14. The second check has rules of its own and does not use this.
    """

    def __init__(self) -> None:
        self._digests: set[bytes] = set()

    def add(self, text: str) -> None:
        """Remember a text without a finding."""
        if len(text) >= _LEAST_BYTES and len(self._digests) < _MOST_TEXTS:
            self._digests.add(_digest(text.encode("utf-8", "surrogateescape")))

    def has(self, content: bytes) -> bool:
        """Return whether the content of a file is a known text. Objects and lists are not: their members are checked,
        too.

        The line break at the end of a file does not count.
        """
        if len(content) < _LEAST_BYTES or looks_like_json(content[:_LEAST_BYTES].decode("utf-8", "replace")):
            return False
        return _digest(content.removesuffix(b"\n")) in self._digests


def _digest(raw: bytes) -> bytes:
    from hashlib import sha256  # noqa: PLC0415 (slow to import, and few texts are so long)

    return sha256(raw).digest()
