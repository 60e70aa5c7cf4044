"""Dialing: the country codes of phone numbers (ITU-T E.164)."""

from __future__ import annotations

from replaykit.redaction.lazy_patterns import lazy

COUNTRY_CODE = lazy(
    rb"1|7|2(?:0|7|1[1-8]|[2-4]\d|5[0-8]|6[0-9]|9[017-9])|3(?:[0-469]|5\d|7[0-8]|8[0-9])|4(?:[013-9]|2[013])"
    rb"|5(?:[1-8]|0\d|9\d)|6(?:[0-6]|7[02-9]|8\d|9[0-2])|8(?:[1246]|5[0-6]|8[0-8])|9(?:[0-58]|6[0-8]|7[0-79]|9[2-8])"
)
"""The code of a country, or of a service that is in none."""


def country_code(digits: str) -> str:
    """The country code that these digits begin with; nothing when they begin with none."""
    found = COUNTRY_CODE.match(digits.encode())
    return found[0].decode() if found else ""
