"""Detectors: secrets and personal data in a text, by their form, and by their checksum where they have one.

They say what sort of thing is where. What they found is never shown. A form is no proof: these find what is well
formed, and nothing else; names and addresses of people have no form.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from functools import cache

import msgspec
from msgspec import Struct

Accepts = Callable[[re.Match[str]], bool]


class Detected(Struct, frozen=True, order=True):
    """One thing that was found: where in the text, and what sort of thing."""

    start: int
    end: int
    kind: str


class Detector(Struct, frozen=True):
    """A form, and what else has to be true of what has it."""

    kind: str
    pattern: str
    accepts: Accepts = lambda _found: True

    def find(self, text: str) -> Iterator[Detected]:
        """Every place where it is; a group named `found` is the thing itself."""
        pattern = _compiled(self.pattern)
        group = pattern.groupindex.get("found", 0)
        for found in pattern.finditer(text):
            if self.accepts(found):
                yield Detected(*found.span(group), self.kind)


@cache
def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)  # when it is first looked for: all of them take some milliseconds


def detect(text: str, detectors: Collection[Detector]) -> list[Detected]:
    """Return the findings of the detectors in the order of the text; of those that overlap, the first and longest."""
    found: list[Detected] = []
    for detector in detectors:
        found += detector.find(text)
    found.sort(key=lambda detected: (detected.start, -detected.end))
    separate: list[Detected] = []
    for detected in found:
        if not separate or detected.start >= separate[-1].end:
            separate.append(detected)
    return separate


def luhn(digits: str) -> bool:
    """True when the last digit is the check digit of the others, as on payment cards."""
    doubled = "0246813579"
    total = sum(int(doubled[int(d)]) if at % 2 else int(d) for at, d in enumerate(reversed(digits)))
    return total % 10 == 0


def iban(text: str) -> bool:
    """True when the two digits after the country are the check digits of the rest (ISO 7064, 97-10)."""
    turned = text[4:] + text[:4]
    return int("".join(str(int(letter, 36)) for letter in turned)) % 97 == 1


_CARD_LENGTHS: tuple[tuple[str, Collection[int]], ...] = (
    ("4", (13, 16, 19)),
    ("5[1-5]|2[2-7]", (16,)),
    ("3[47]", (15,)),
    ("3[0689]", (14, 16, 19)),
    ("6", range(16, 20)),
    ("", ()),
)
"""The numbers of digits of cards, by how their numbers begin."""


def _is_card(found: re.Match[str]) -> bool:
    digits = re.sub(r"[ -]", "", found[0])
    lengths = next(lengths for start, lengths in _CARD_LENGTHS if re.match(start, digits))
    return len(digits) in lengths and luhn(digits)


def _is_iban(found: re.Match[str]) -> bool:
    text = found[0].replace(" ", "")
    return 15 <= len(text) <= 34 and iban(text)


def _is_ssn(found: re.Match[str]) -> bool:
    area, group, serial = found["area"], found["group"], found["serial"]
    return area not in ("000", "666") and area < "900" and group != "00" and serial != "0000"


def _is_phone(found: re.Match[str]) -> bool:
    return 8 <= len(re.sub(r"\D", "", found[0])) <= 15


def _is_ip(found: re.Match[str]) -> bool:
    return all(int(part) <= 255 and (part == "0" or part[0] != "0") for part in found[0].split("."))


def _is_jwt(found: re.Match[str]) -> bool:
    """True when its first part is the JSON of a header that names an algorithm."""
    head = found[0].partition(".")[0]
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)))
    except (binascii.Error, ValueError, msgspec.DecodeError):
        return False
    return isinstance(header, dict) and "alg" in header


def _looks_random(found: re.Match[str]) -> bool:
    """True when a value has letters and digits, and is no word: at least 3 bits for each character."""
    value = found["found"]
    counts = Counter(value)
    entropy = -sum(n / len(value) * math.log2(n / len(value)) for n in counts.values())
    return entropy >= 3 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)


SECRETS = (
    Detector("aws_access_key", r"\b(?:AKIA|ASIA)[A-Z2-7]{16}\b"),
    Detector("anthropic_key", r"\bsk-ant-[A-Za-z0-9_-]{20,200}"),
    Detector("openai_key", r"\bsk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,200}"),
    Detector("github_token", r"\b(?:gh[pousr]_[A-Za-z0-9]{36,251}|github_pat_[A-Za-z0-9_]{22,255})\b"),
    Detector("gitlab_token", r"\bglpat-[A-Za-z0-9_-]{20,64}"),
    Detector("google_api_key", r"\bAIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])"),
    Detector("slack_token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,250}"),
    Detector("stripe_key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,250}\b"),
    Detector("huggingface_token", r"\bhf_[A-Za-z0-9]{30,64}\b"),
    Detector("npm_token", r"\bnpm_[A-Za-z0-9]{36}\b"),
    Detector("jwt", r"\beyJ[A-Za-z0-9_-]{8,2000}\.[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,2000}", _is_jwt),
    Detector("private_key", r"-----BEGIN (?:[A-Z0-9]{2,20} ){0,3}PRIVATE KEY-----"),
    Detector("url_password", r"\b[a-z][a-z0-9+.-]{1,20}://[^\s/:@]{1,100}:(?P<found>[^\s/:@]{3,200})@"),
    Detector("bearer_token", r"(?i)\bbearer +(?P<found>[A-Za-z0-9._~+/-]{16,2000}=*)", _looks_random),
    Detector(
        "assigned_secret",
        r"(?i)(?:password|passwd|pwd|secret|api[_-]?key|access[_-]?key|auth[_-]?token|access[_-]?token|private[_-]?key)"
        r"[\"']?\s{0,3}[:=]\s{0,3}[\"']?(?P<found>[^\s\"',;{}<>]{8,200})",
        _looks_random,
    ),
)
"""Keys, tokens and passwords."""

_NOT_IN_NUMBER = r"(?<![\w.-])"
_NOT_ON = r"(?![\w-]|\.\d)"
PII = (
    Detector("email", r"(?<![\w.+-])[\w.+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b"),
    Detector("card", rf"{_NOT_IN_NUMBER}[2-6]\d{{3}}(?:[ -]?\d){{9,15}}{_NOT_ON}", _is_card),
    Detector(
        "iban",
        rf"{_NOT_IN_NUMBER}[A-Z]{{2}}\d{{2}}(?: ?[A-Z0-9]{{4}}){{2,7}}(?: ?[A-Z0-9]{{1,3}})?{_NOT_ON}",
        _is_iban,
    ),
    Detector(
        "ssn",
        rf"{_NOT_IN_NUMBER}(?P<area>\d{{3}})(?P<gap>[- ])(?P<group>\d\d)(?P=gap)(?P<serial>\d{{4}}){_NOT_ON}",
        _is_ssn,
    ),
    # Nine digits alone are an order, a part or an account; with the word before them they are what it says.
    Detector(
        "ssn",
        r"(?i)\b(?:ssn|social security(?: number| no\.?)?)\W{1,5}(?:is\W{1,3})?"
        rf"(?P<found>(?P<area>\d{{3}})(?P<group>\d\d)(?P<serial>\d{{4}})){_NOT_ON}",
        _is_ssn,
    ),
    Detector("phone", r"(?<![\w+.-])\+[1-9]\d{0,2}(?:[ .()-]{1,2}\d{2,4}){2,5}(?![\w-])", _is_phone),
    Detector("phone", r"(?<![\w+.-])\+[1-9]\d{7,14}(?![\w-])", _is_phone),
    Detector("phone", r"(?<![\w+.-])(?:\([2-9]\d\d\) ?|[2-9]\d\d[-.])[2-9]\d\d[-.]\d{4}(?![\w-])"),
    Detector("ip", r"(?<![\w.-])\d{1,3}(?:\.\d{1,3}){3}(?![\w-]|\.\d)", _is_ip),
)
"""Kinds of personal data."""
