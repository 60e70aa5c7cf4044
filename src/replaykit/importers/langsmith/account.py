"""Where LangSmith is, and who asks it: said by the environment, never by a file."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Iterator, Mapping
from urllib.parse import urljoin, urlsplit, urlunsplit

from msgspec import Struct

from replaykit.errors import UsageError

DEFAULT_ENDPOINT = "https://api.smith.langchain.com"
ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
WORKSPACE = "LANGSMITH_WORKSPACE_ID"
PAYLOAD_HOSTS = "REPLAYKIT_PAYLOAD_HOSTS"
"""Further hosts, with commas between them, that inputs and outputs may be fetched from."""

_MIN_HIDDEN_CHARS = 6  # a shorter key occurs by chance, and is none
_SUFFIXES = ("/api/v1", "/api/v2", "/api")


class Account(Struct, frozen=True, kw_only=True):
    """An address of LangSmith, and what it takes to be let in there."""

    root: str
    key: str = ""
    workspace: str = ""
    payload_hosts: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Account({self.root!r})"

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a request to the API carries; one to any other address carries none of it."""
        said = (("x-api-key", self.key), ("x-tenant-id", self.workspace))
        return tuple((name, value) for name, value in said if value)

    def hide(self, text: str) -> str:
        """The text without the key, if somebody says it back."""
        return text.replace(self.key, f"${{{KEYS[0]}}}") if len(self.key) >= _MIN_HIDDEN_CHARS else text

    def payload_url(self, url: str) -> str:
        """The address of something that is stored apart; LangSmith may give it relative to itself."""
        return urljoin(f"{self.root}/", url)

    def allows(self, url: str) -> bool:
        """True for an address that a payload may be fetched from: what a server says is data, and may lead anywhere."""
        try:
            parts = urlsplit(url)
            host = (parts.hostname or "").lower()
            _ = parts.port
        except ValueError:
            return False
        own = (urlsplit(self.root).hostname or "").lower()
        near = is_loopback(host) and is_loopback(own)
        known = host == own or host in self.payload_hosts or near
        return bool(host) and known and (parts.scheme == "https" or (parts.scheme == "http" and near))


def account_of(environment: Mapping[str, str] | None = None) -> Account:
    """The account that the environment names; a key goes over TLS, or stays on this machine."""
    given = os.environ if environment is None else environment
    variable = next(_set(given, ENDPOINTS), ENDPOINTS[0])
    root = _root(given.get(variable, "").strip() or DEFAULT_ENDPOINT, variable)
    named = next(_set(given, KEYS), KEYS[0])
    key, workspace = given.get(named, "").strip(), given.get(WORKSPACE, "").strip()
    if not key and not is_loopback(urlsplit(root).hostname or ""):
        raise UsageError("LangSmith needs a key", hint=f"Set {KEYS[0]}.")
    for name, value in ((named, key), (WORKSPACE, workspace)):
        if not (value.isascii() and value.isprintable()):  # a library would show it in its complaint
            raise UsageError(f"{name} holds characters that no header can")
    hosts = given.get(PAYLOAD_HOSTS, "").lower().split(",")
    return Account(
        root=root, key=key, workspace=workspace, payload_hosts=tuple(host.strip() for host in hosts if host.strip())
    )


def is_loopback(host: str) -> bool:
    """True for this machine."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _set(environment: Mapping[str, str], names: tuple[str, ...]) -> Iterator[str]:
    return (name for name in names if environment.get(name, "").strip())


def _root(text: str, variable: str) -> str:
    """The address that the paths of the API come after; some write it with `/api/v1`."""
    try:
        parts = urlsplit(text)
        host, user, _ = parts.hostname or "", parts.username or parts.password, parts.port
    except ValueError:
        host, user, parts = "", None, urlsplit("")
    if user or parts.query or parts.fragment:
        raise UsageError(f"{variable} is no plain address", hint="Write https://host, and nothing but that.")
    if not host or not (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))):
        raise UsageError(f"{variable} is {text[:200]!r}", hint="Give an https:// address, or one on loopback.")
    path = parts.path.rstrip("/")
    path = next((path.removesuffix(end) for end in _SUFFIXES if path.endswith(end)), path)
    return urlunsplit((parts.scheme, parts.netloc, path, "", ""))
