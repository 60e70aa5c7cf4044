"""Find secrets by a word next to them: wallet phrases, arguments of commands, keys of vendors."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View, places_of

# The words that restore a wallet (BIP-39), and grouped seeds of one-time passwords. Without a word list, the checksum
# of a phrase cannot be checked. A phrase follows a word for it and has 12, 15, 18, 21 or 24 words of three to eight
# letters, none of them among the words that every sentence has.

PHRASE_NAMES = (
    b"seed phrase|recovery phrase|backup phrase|secret phrase|wallet phrase|mnemonic|seed words|recovery words"
).split(b"|")
"""One of these is before every phrase."""
SEED_NAMES = (b"totp", b"2fa", b"authenticator")
"""One of these is before every grouped seed."""
_COUNTS = (24, 21, 18, 15, 12)
_WORDS = lazy(
    rb"(?:[^a-z0-9]{1,12}|(?:[^a-z0-9]{1,3}[a-z]{1,9}){0,4}?[^a-z0-9]{0,4}[:=\"'`\n]\s{0,8})(?:\d{1,2}[.):]\s?)?"
    rb"([a-z]{3,8}(?:(?:[\s,]{1,3}|\s{0,2}\d{1,2}[.):]?\s)[a-z]{3,8}){11,23}+)(?![a-z])"
)
_WORD = lazy(rb"[a-z]{3,8}")
_OF_SENTENCES = frozenset(
    b"the and for are was has had not but his her its our who how all any from were been have".split()
)
_SEED = lazy(
    rb"(?<![A-Za-z0-9])(?:(?:[A-Z2-7]{4}[ -]){3,12}[A-Z2-7]{4}|(?:[a-z2-7]{4}[ -]){3,12}[a-z2-7]{4})(?![A-Za-z0-9])"
)
_DIGIT_OF_SEED = lazy(rb"[2-7]")
_NEAR_SEED = 124


def phrase_hits(view: View) -> Iterator[Hit]:
    """Yield phrases after a name for them, and seeds in groups of four."""
    for end in _ends_of(PHRASE_NAMES, view.low):
        found = _WORDS.match(view.low, end)
        if found and _is_phrase(_WORD.findall(found[1])):
            yield Hit("seed-phrase", *found.span(1), 2)
    for end in _ends_of(SEED_NAMES, view.low):
        found = _SEED.search(view.flat, end, end + _NEAR_SEED)
        if found and _DIGIT_OF_SEED.search(found[0]):  # excludes sentences of four-letter words
            yield Hit("secret", *found.span(), 2)


def _ends_of(names: Iterable[bytes], low: bytes) -> Iterator[int]:
    for name in names:
        for at in places_of(low, name):
            yield at + len(name)


def _is_phrase(words: list[bytes]) -> bool:
    return len(words) in _COUNTS and _OF_SENTENCES.isdisjoint(words)


# Passwords in the arguments of programs.

_VALUE = rb"(?:'([^'\r\n]{1,200})'|\"([^\"\r\n]{1,200})\"|([^\s'\"|;&<>$]{3,200}))"
_ARGUMENTS = rb"[^\r\n|;&]{0,200}?"
_PROGRAMS: dict[bytes, re.Pattern[bytes]] = {
    b"mysql": lazy(rb"\bmysql(?:dump|admin|import|sh|show)?(?:\.exe)?\s" + _ARGUMENTS + rb"(?<=\s)-p" + _VALUE),
    b"mariadb": lazy(rb"\bmariadb(?:-dump|-admin)?\s" + _ARGUMENTS + rb"(?<=\s)-p" + _VALUE),
    b"sshpass": lazy(rb"\bsshpass\s" + _ARGUMENTS + rb"-p\s{0,4}" + _VALUE),
    b"redis-cli": lazy(rb"\bredis-cli\s" + _ARGUMENTS + rb"(?<=\s)(?:-a|--pass)\s{1,4}" + _VALUE),
}
PROGRAMS = tuple(_PROGRAMS)
"""One of these is in every such command."""


def command_hits(view: View) -> Iterator[Hit]:
    """Yield the passwords in `mysql -pX`, `sshpass -p X` and `redis-cli -a X`."""
    for program, form in _PROGRAMS.items():
        if program not in view.low:
            continue
        for found in form.finditer(view.flat):
            group = found.lastindex or 0  # one of three quoting styles
            if not _is_stand_in(found[group]):
                yield Hit("secret", *found.span(group), 2)


def _is_stand_in(value: bytes) -> bool:
    """True for `$PASSWORD`, `<password>`, `{password}`, `****`."""
    return value[:1] in b"$<{[" or not value.strip(b"*x.") or value.lower() in (b"password", b"secret")


# Keys without a distinctive form, next to the vendor's name.

_NEAR = 80
_LONGEST = 41  # longer than any of the keys, including the character after it
# Words for numbers that give no access.
_ID = lazy(
    rb"(?:\bids?|[_-]id|[a-z]Id|sha\d*|md5|hash|digest|etag|commit|trace|span)[\"'`]?\s{0,3}[:=]?\s{0,3}[\"'`]?\Z"
)
_OF_ALL_CLASSES = rb"(?=[A-Za-z0-9]*[a-z])(?=[A-Za-z0-9]*[A-Z])(?=[A-Za-z0-9]*[0-9])"


def _alone(form: bytes) -> re.Pattern[bytes]:
    return lazy(rb"(?<![A-Za-z0-9_-])%b(?![A-Za-z0-9_-])" % form)


_VENDORS = {
    b"twilio": _alone(rb"[0-9a-f]{32}"),
    b"mistral": _alone(_OF_ALL_CLASSES + rb"[A-Za-z0-9]{32}"),
    b"cohere": _alone(_OF_ALL_CLASSES + rb"[A-Za-z0-9]{40}"),
}
VENDOR_WORDS = tuple(_VENDORS)
"""One of these is near every such key."""
_TWILIO_LOGIN = lazy(rb"AC(?<![A-Za-z0-9]AC)[0-9a-f]{32}[\"']?\s{0,2}[:,]\s{0,2}[\"']?([0-9a-f]{32})(?![A-Za-z0-9])")


def vendor_hits(view: View) -> Iterator[Hit]:
    """Yield keys near their vendor's name, and the second half of Twilio's login.

    Searching the whole text takes thirty times as long as searching the name, since the patterns begin with no literal.
    """
    for word, form in _VENDORS.items():
        done = 0
        for at in places_of(view.low, word):
            first = max(done, at + len(word))
            done = at + _NEAR + 1
            for found in form.finditer(view.flat, first, done + _LONGEST):
                start = found.start()
                if start < done and not _ID.search(view.flat[max(0, start - 20) : start]):
                    yield Hit(f"{word.decode()}-key", *found.span(), 2)
    if b"AC" in view.flat:
        for found in _TWILIO_LOGIN.finditer(view.flat):
            yield Hit("twilio-key", *found.span(1), 2)
