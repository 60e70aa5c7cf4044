"""Decide whether the value next to a telling name is a secret, or only a stand-in.

`password: ********`, `password=${DB_PASSWORD}`, `password = hasher.hash(text)` and `token: Optional[str]` contain no
secret. Quoted values are trusted more than bare ones, which may be code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from math import log2
from string import ascii_letters, digits

from replaykit.model.text_lines import words_of
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NameHint, Trust
from replaykit.redaction.placeholders import blanked, spans

_WORDS = frozenset(
    words_of(
        "null none nil undefined true false string str text bytes int integer number boolean bool float optional "
        "required secret secrets password passwd pwd pass token tokens key apikey bearer basic redacted masked "
        "hidden filtered removed omitted changeme change_me change-me example todo tbd tba unknown empty n/a na "
        "yes no on off default prompt env environment placeholder dummy value any object array char varchar "
        "secretstr type self this void const let var return expired invalid missing wrong incorrect correct valid "
        "revoked disabled enabled set unset rotated stdin file vault keyring input hash hashed encrypted sha256 "
        "bcrypt md5 plain plaintext"
    )
)
_MASK = lazy(r"[*•●·xX.#?_\-=…~\s]+|.*(?:\*{3}|•{3}|…|\.\.\.$|x{6}|X{6}).*", re.DOTALL)
_STAND_IN = lazy(
    r"""\$\{?\w | .*\$\{ | \{\{ | .*\{\{ | %\( | %[sdv]$ | \{\w*\}$ | <[^<>]*>$ | \[[\w .-]+\]$ | \#\{
      | @\w+@$ | __\w+__$
      | .*\byour[-_ ]? | .*(?:_|-|\b)(?:here|goes[-_]here|placeholder|changeme|redacted)$ | \(\w | arn:aws:
      | .*(?:\[\^?[A-Za-z]-[A-Za-z] | \\[bdswBDSW][+*{(\[] | \(\?[:iP<=!] | \{\d+,\d*\})       # a pattern
      | (?:op|vault|ssm|secretsmanager|env|file|keychain|doppler|gsm)://? | enc\[ | !vault
      | (?:insert|replace|enter|add|put|my)[-_ ](?:[A-Za-z]{1,12}[-_ ]){0,4}+(?:api|key|token|secret|password)
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
_CODE = lazy(
    r"""(?:os\.|process\.env|env\.|config\.|settings\.|self\.|this\.|request\.|req\.|secrets\.|ctx\.|args\.|options\.|opts\.
       |params\.|props\.|data\.|user\.|app\.|getenv|environ|System\.|Deno\.|import\.meta|var\.|local\.|module\.)
     | [A-Za-z_$][\w$]*(?:(?:\.|::|->|\?\.)[A-Za-z_$][A-Za-z_$]*)+$
     | &?\*?[A-Za-z_][\w.]*(?:\[|\() | (?:await|new|not|lambda|function|async)\b | [|&=!<>+]{1,3}$
    """,
    re.VERBOSE,
)
_NAME = lazy(r"[A-Za-z_$][A-Za-z_$-]*")
_STEM = lazy(r"pass|pwd|token|secret|key|cred|auth", re.IGNORECASE)
_DATE = lazy(r"\d{4}-\d\d-\d\d(?:[T ].*)?")
_PATH = lazy(
    r"(?:[~.]{0,2}/[\w.@-]+){2,}/?|[A-Za-z]:\\.*|[\w./-]+\.(?:pem|key|json|ya?ml|txt|env|crt|p12|jks|py|js|ts|go)"
)
_URL = lazy(r"[a-z][a-z0-9+.-]{1,12}://", re.IGNORECASE)
# `jane@example.com`, `react@18.2.0`, `git@host:path`.
_AT_HOST = lazy(r"[^@]*@(?:v?\d+\.\d|[\w.-]+[:/]|(?:[A-Za-z-]+\d{0,3}\.)*[A-Za-z-]+\d{0,3}[.,;:]?\Z)")
_SLUG = lazy(r"[A-Za-z]+(?:[-_.:/ ][A-Za-z]+)*")
_TYPE = lazy(r"(?:Optional|Union|List|Dict|Secret|Option|Maybe|Promise)\b.*|[A-Z][a-z]+(?:[A-Z][a-z]+)*(?:\[.*\])?")

_DIGITS, _LETTERS = digits.encode(), ascii_letters.encode()
_LEAST_DIGITS = {"phone": 6, "card": 12, "ssn": 9, "iban": 8, "imei": 14, "secret": 3, "id-number": 3}
_MOST_CHARS = {"secret": 10, "card": 30, "ssn": 15, "phone": 30, "imei": 24, "iban": 44, "id-number": 40}


def is_plausible(value: str, hint: NameHint, *, quoted: bool, loose: bool = True) -> bool:
    """Return whether the value can be what the name announces. `loose` means that a plain word counts, too."""
    bare = value.strip()
    if not bare or len(bare) > 8192 or bare.lower() in _WORDS:
        return False
    if hint.trust is Trust.COOKIE:
        return "=" in bare and len(bare) > 8
    if hint.trust is Trust.NUMBER:
        return _is_number(bare, hint.kind)
    if _MASK.fullmatch(bare[:200]) or _STAND_IN.match(bare[:200]):
        return False
    if not quoted and _is_code(bare, loose=loose and hint.trust is Trust.ANY):
        return False
    if hint.trust is Trust.ANY:
        return quoted or len(bare) > 2
    if " " in bare or _URL.match(bare) or _PATH.fullmatch(bare[:300]) or _names_secret(bare):
        return False
    if hint.trust is Trust.SECRET:
        return len(bare) >= 6 and (quoted or not _NAME.fullmatch(bare)) and not _DATE.fullmatch(bare)
    return looks_random(bare)


def looks_random(value: str) -> bool:
    """Return whether a value looks generated: mixed character classes, and no words, date, path or address."""
    if len(value) < 8 or _DATE.fullmatch(value[:40]) or ("@" in value[1:-4] and _AT_HOST.match(value)):
        return False
    digits, letters = _digits_and_letters(value)
    if not letters:
        return len(value) >= 20 and entropy(value) > 2.5
    if not digits:
        is_mixed = not (value.islower() or value.isupper())
        if len(value) >= 16 and is_mixed and not _SLUG.fullmatch(value):
            return True
        return len(value) >= 20 and not _is_wordy(value) and entropy(value) > 3.5
    if len(value) < 12:
        return entropy(value) >= 2.0
    return entropy(value) >= 2.5


def entropy(text: str) -> float:
    """Return the bits of entropy per character, by frequency."""
    length = len(text)
    return -sum([count * log2(count / length) for count in map(text.count, set(text))]) / length


def _digits_and_letters(text: str) -> tuple[bool, bool]:
    """Return whether the text has digits, and whether it has letters."""
    if text.isascii():  # ten times as fast as checking each character
        raw = text.encode()
        without_digits = raw.translate(None, _DIGITS)
        return len(without_digits) < len(raw), len(without_digits.translate(None, _LETTERS)) < len(without_digits)
    return any(map(str.isdigit, text)), any(map(str.isalpha, text))


def _is_number(value: str, kind: str) -> bool:
    count = sum(map(str.isdigit, value))
    if kind == "secret":
        return value.isdigit() and 3 <= count <= _MOST_CHARS[kind]
    return count >= _LEAST_DIGITS.get(kind, 3) and len(value) <= _MOST_CHARS.get(kind, 60)


def _is_code(value: str, *, loose: bool) -> bool:
    if _CODE.match(value) or _TYPE.fullmatch(value):
        return True
    return _NAME.fullmatch(value) is not None and (not loose or _STEM.search(value) is not None)


def _names_secret(value: str) -> bool:
    """Return whether this names a secret rather than being one: `DB_PASSWORD`, `my-api-key-1`."""
    if len(value) >= 40 or not _SLUG.fullmatch(value.rstrip("0123456789")):
        return False
    return _STEM.search(value) is not None


def _is_wordy(value: str) -> bool:
    vowels = sum(map(value.lower().count, "aeiou"))
    return vowels > len(value) * 0.28


# Composed values: secrets that contain other findings, or placeholders of them. `Cookie: sessionid=x; access=<a JWT>`
# is one secret, and recognising a part of it must not leave the rest visible.


COOKIE_ATTRIBUTES = frozenset(words_of("path expires max-age domain samesite version comment priority"))
"""Words in a cookie that describe the cookie itself."""
# One cookie and no more: its attributes hold no further pair, and no text but what they are made of.
_HIDDEN_COOKIE = lazy(
    r"[^=;,&\s]+=hidden(?:;\s*(?:secure|httponly|partitioned|max-age=-?\d+|(?:samesite|priority)=[a-z]+"
    r"|domain=[\w.-]+|path=[\w./-]*|expires=[a-z]{3,9}, [\w-]+(?: [\w-]+)* \d\d:\d\d:\d\d gmt))*;?\s*",
    re.IGNORECASE | re.ASCII,
)
_BLANKED = lazy(rb"<{4,}+")
_APART = lazy(r"[\s;,&\"'=<>]+", re.ASCII)
_WORD = lazy(rb"[A-Za-z0-9]{3}")
_MIXED = lazy(r"(?=[^\s]{0,200}[A-Za-z])[^\s]{0,200}\d")
_LEAST = 6


def hides_more(flat: bytes) -> bool:
    """Return whether a value holds more than its placeholders, which are blanked with `<`."""
    rest = _BLANKED.sub(b" ", flat)
    if any(map(looks_random, _APART.split(rest.decode()))):
        return True
    is_one_word = not _APART.search(_BLANKED.sub(b"", flat).decode())
    return is_one_word and _WORD.search(rest) is not None


def rest_is_secret(value: str, start: int, findings: Iterable[Hit]) -> bool:
    """Return whether words next to the findings in a value look like parts of the same secret.

    `start` is the position of the value in the text of the findings.
    """
    pieces, at = [], 0
    for hit in sorted(findings, key=lambda hit: hit.start):
        pieces.append(value[at : max(at, hit.start - start)])
        at = max(at, hit.end - start)
    if not pieces:
        return False
    words = " ".join([*pieces, value[at:]]).split()
    return any(len(word) >= _LEAST and _MIXED.match(word) for word in words)


def cookie_hides_more(text: str) -> bool:
    """Return whether a pair of a cookie has a value that is neither a word nor a placeholder."""
    raw = text.encode("utf-8", "replace")
    return any(map(_is_shown, blanked(raw, spans(raw)).split(b";")))


def is_hidden_cookie(text: str) -> bool:
    """Return whether a recording has hidden the value of this cookie; clients still need its name and attributes."""
    return _HIDDEN_COOKIE.fullmatch(text) is not None


def _is_shown(pair: bytes) -> bool:
    name, sign, value = pair.partition(b"=")
    if not sign or name.strip().lower().decode("utf-8", "replace") in COOKIE_ATTRIBUTES:
        return False
    rest = value.strip(b'<" \r\n')
    return bool(rest) and not rest.isalpha()
