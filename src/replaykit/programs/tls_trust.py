"""TLS certificates the proxy trusts: the ones the program itself would have trusted."""

from __future__ import annotations

import contextlib
import os
import ssl
from collections.abc import Mapping
from importlib.util import find_spec

_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS")


def ssl_context(environment: Mapping[str, str] = os.environ) -> ssl.SSLContext:
    """The machine's own certificates, and those that the user has named for any of the usual clients."""
    context = ssl.create_default_context()
    for name in _BUNDLES:
        if environment.get(name):
            with contextlib.suppress(OSError):  # a client that reads it says what is wrong with it
                context.load_verify_locations(environment[name])
    if not context.get_ca_certs() and not os.path.isdir(ssl.get_default_verify_paths().capath or "") and _has_certifi():
        import certifi  # noqa: PLC0415 (not a dependency of ours; most SDKs bring it)

        context.load_verify_locations(certifi.where())
    return context


def _has_certifi() -> bool:
    return find_spec("certifi") is not None
