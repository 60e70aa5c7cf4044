"""Search: all that is found in a text, by form, by name and by check; what overlaps is one finding."""

from __future__ import annotations

from replaykit.redaction import traits
from replaykit.redaction.addresses import email_hits, ip_hits
from replaykit.redaction.commands import PROGRAMS, command_hits
from replaykit.redaction.composed_values import hides_more
from replaykit.redaction.encoded import MAX_DEPTH, base64_hits, hex_hits, packed_hits, percent_hits
from replaykit.redaction.finding import Hit, SecretFinding, settled
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.literals import literals_in
from replaykit.redaction.long_texts import LEAST_CHARS, long_hits
from replaykit.redaction.named_values import assigned_hits
from replaykit.redaction.numbers import number_hits
from replaykit.redaction.patterns import pattern_hits
from replaykit.redaction.phrases import NAMES as PHRASE_NAMES
from replaykit.redaction.phrases import SEED_NAMES, phrase_hits
from replaykit.redaction.prefilter import is_plainly_clean
from replaykit.redaction.rules import DEFAULT, Rules
from replaykit.redaction.tables import sql_hits
from replaykit.redaction.text_view import View
from replaykit.redaction.tokens import long_runs, secret_hits, token_hits
from replaykit.redaction.urls import url_hits
from replaykit.redaction.vendors import WORDS as VENDOR_WORDS
from replaykit.redaction.vendors import vendor_hits

_PHRASES = (*PHRASE_NAMES, *SEED_NAMES)
_PLUS = lazy(r"\+(?<=[0-9A-Z]\+)(?=[0-9A-Z])")


def find(text: str, rules: Rules = DEFAULT) -> list[SecretFinding]:
    """What must not be kept in the text: spans that do not overlap, in order, of the values alone."""
    if rules.are_usual and is_plainly_clean(text.encode("utf-8", "surrogatepass")):
        return []
    return [SecretFinding(hit.kind, hit.start, hit.end) for hit in hits_in(text, rules)]


def hits_in(text: str, rules: Rules, depth: int = 0, around: int = 0) -> list[Hit]:
    """`find`, with how each value is spelled. `around`: the traits of a larger text that this one is a part of."""
    if len(text) < 3:
        return []
    if len(text) >= LEAST_CHARS and rules.are_usual:
        around |= View(text).traits
        return long_hits(text, lambda part: _hits_in(part, rules, depth, around))
    return _hits_in(text, rules, depth, around)


def _hits_in(text: str, rules: Rules, depth: int, around: int) -> list[Hit]:
    view = View(text, around)
    literals = literals_in(view.low)
    hits = view.findings
    runs = list(long_runs(view))
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
    hits.extend(hit for hit in email_hits(view, literals) if not _is_login(hit, logins))
    hits.extend(logins)
    has_fields = view.traits & traits.FIELDS == traits.FIELDS
    if b"0" in view.shape:
        hits.extend(number_hits(view, literals))
        if has_fields and _PLUS.search(text):
            plain = View(_PLUS.sub(" ", text))  # in a query a plus is a blank
            hits.extend(number_hits(plain, literals_in(plain.low)))
        hits.extend(ip_hits(view, literals))
    hits.extend(list(assigned_hits(view, rules, literals)))
    if depth < MAX_DEPTH:

        def deeper(inner: str) -> list[Hit]:
            return hits_in(inner, rules, depth + 1)

        if b"%" in view.flat or has_fields:
            hits.extend(percent_hits(view, deeper))
        if runs:
            hits.extend(base64_hits(view, runs, deeper))
            hits.extend(packed_hits(view, runs, deeper))
            hits.extend(hex_hits(view, runs, deeper))
    if rules.extra:
        hits.extend(pattern_hits(view, rules.extra))
    if not hits:
        return hits
    if rules.allow or rules.allow_patterns:
        hits = [hit for hit in hits if not rules.allows(text[hit.start : hit.end], is_own=hit.is_own)]
    return settled([hit for hit in hits if not _is_redacted(view.flat[hit.start : hit.end])], text)


def _is_login(email: Hit, logins: list[Hit]) -> bool:
    """True for what is an address by the end of a password and the host behind it: `://u:p@ss@host.example`."""
    return any(login.start <= email.start < login.end < email.end for login in logins)


def _is_redacted(flat: bytes) -> bool:
    """True for a value of which placeholders have taken the place."""
    return b"<<<<" in flat and not hides_more(flat)
