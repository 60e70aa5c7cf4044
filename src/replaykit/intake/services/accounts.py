"""Addresses and keys of services, which come from the environment, never from a file."""

from __future__ import annotations

import base64
import ipaddress
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct

from replaykit.errors import UsageError

_MIN_HIDDEN_CHARS = 6  # a shorter key occurs by chance, and is none


class ServiceAccount(Struct, frozen=True, kw_only=True):
    """An address of a service, and what it takes to be let in there."""

    service: str
    root: str
    variable: str
    refused: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    secrets: tuple[tuple[str, str], ...] = ()
    """Secrets, each with the name that replaces it in messages."""

    def __repr__(self) -> str:
        return f"ServiceAccount({self.service!r}, {self.root!r})"

    def hide(self, text: str) -> str:
        """The text without the keys, if somebody says them back."""
        return hidden(text, self.secrets)


def hidden(text: str, secrets: tuple[tuple[str, str], ...]) -> str:
    """The text with names in the place of secrets."""
    for name, value in secrets:
        if len(value) >= _MIN_HIDDEN_CHARS:
            text = text.replace(value, f"${{{name}}}")
    return text


def first_set(environment: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    """Return the variables that are set."""
    return (name for name in names if environment.get(name, "").strip())


def header_safe(name: str, value: str) -> str:
    """The value, where a header can carry it; else an error that does not show it, as a library would."""
    if not (value.isascii() and value.isprintable()):
        raise UsageError(f"{name} holds characters that no header can")
    return value


def basic(user: str, password: str) -> str:
    """The two as a header says them."""
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def root_of(text: str, variable: str, *, suffixes: tuple[str, ...] = (), is_secret: bool = True) -> str:
    """The address that the paths of the API come after; a key goes over TLS, or stays on this machine."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname or "", parts.username or parts.password, parts.port
    except ValueError:
        host, user, parts = "", None, urlsplit("")
    if user or parts.query or parts.fragment:
        raise UsageError(f"{variable} is no plain address", hint="Write https://host, and nothing but that.")
    plain = parts.scheme == "http" and (is_loopback(host) or not is_secret)
    if not host or not (parts.scheme == "https" or plain):
        raise UsageError(f"{variable} is {text[:200]!r}", hint="Give an https:// address, or one on loopback.")
    path = parts.path.rstrip("/")
    path = next((path.removesuffix(end) for end in suffixes if path.endswith(end)), path).rstrip("/")
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))


def is_loopback(host: str) -> bool:
    """True for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
