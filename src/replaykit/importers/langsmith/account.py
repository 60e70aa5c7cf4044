"""Where LangSmith is, and who asks it: said by the environment, never by a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.importers.service_account import first_set, header_safe, hidden, is_loopback, root_of

DEFAULT_ENDPOINT = "https://api.smith.langchain.com"
ENDPOINTS = ("LANGSMITH_ENDPOINT", "LANGCHAIN_ENDPOINT")
KEYS = ("LANGSMITH_API_KEY", "LANGCHAIN_API_KEY")
WORKSPACE = "LANGSMITH_WORKSPACE_ID"
PAYLOAD_HOSTS = "REPLAYKIT_PAYLOAD_HOSTS"
"""Further hosts, with commas between them, that inputs and outputs may be fetched from."""

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
    def service(self) -> str:
        """What people call it."""
        return "LangSmith"

    @property
    def variable(self) -> str:
        """The variable that says where it is."""
        return ENDPOINTS[0]

    @property
    def refused(self) -> str:
        """What to look at where the key is refused."""
        return f"Check {KEYS[0]}; with a key for several workspaces, set {WORKSPACE}."

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """What a request to the API carries; one to any other address carries none of it."""
        said = (("x-api-key", self.key), ("x-tenant-id", self.workspace))
        return tuple((name, value) for name, value in said if value)

    def hide(self, text: str) -> str:
        """The text without the key, if somebody says it back."""
        return hidden(text, ((KEYS[0], self.key),))

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
    variable = next(first_set(given, ENDPOINTS), ENDPOINTS[0])
    root = root_of(given.get(variable, "").strip() or DEFAULT_ENDPOINT, variable, suffixes=_SUFFIXES)
    named = next(first_set(given, KEYS), KEYS[0])
    key, workspace = given.get(named, "").strip(), given.get(WORKSPACE, "").strip()
    if not key and not is_loopback(urlsplit(root).hostname or ""):
        raise UsageError("LangSmith needs a key", hint=f"Set {KEYS[0]}.")
    hosts = given.get(PAYLOAD_HOSTS, "").lower().split(",")
    return Account(
        root=root,
        key=header_safe(named, key),
        workspace=header_safe(WORKSPACE, workspace),
        payload_hosts=tuple(host.strip() for host in hosts if host.strip()),
    )
