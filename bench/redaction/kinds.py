"""The kinds of sensitive data, and the three groups that are held to aims of their own.

A family is what a finding has to say for the kind to be right: that a text is *some* secret is enough, since what
it is replaced with says no more; personal data has to be named.
"""

from __future__ import annotations

SECRETS = "secrets"
CHECKED = "checked"
PERSONAL = "personal"

_PERSONAL = {
    "card": CHECKED,
    "iban": CHECKED,
    "imei": CHECKED,
    "email": PERSONAL,
    "phone": PERSONAL,
    "ssn": PERSONAL,
    "ip": PERSONAL,
    "document": PERSONAL,
}
FAMILIES = ("secret", *_PERSONAL)


def family(kind: str) -> str:
    return kind if kind in _PERSONAL else "secret"


def group(kind: str) -> str:
    return _PERSONAL.get(kind, SECRETS)
