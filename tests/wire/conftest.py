"""Exchanges as real SDKs sent them to a scripted server, with what each SDK understood of the response."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from replaykit.wire.api import ModelApi
from replaykit.wire.model_calls import ModelCall
from replaykit.wire.routes import api_of

FILES = sorted((Path(__file__).parent / "data").glob("*.json"))


class Exchange(Struct, frozen=True):
    """One recorded exchange; `sdk` is what the vendor's own client made of the response."""

    name: str
    path: str
    request: bytes
    response: bytes
    sdk: dict[str, Any]

    @property
    def api(self) -> ModelApi:
        api = api_of("POST", self.path, "application/json")
        assert api is not None
        return api

    def read(self, response: bytes | None = None) -> ModelCall:
        return self.api.read(self.request, 200, [self.response if response is None else response])


def load(file: Path) -> Exchange:
    stored = json.loads(file.read_text(encoding="utf-8"))
    encoded = stored.get("response_base64")
    response = base64.b64decode(encoded) if encoded else stored["response"].encode()
    return Exchange(stored["name"], stored["path"], stored["request"].encode(), response, stored["sdk"])


@pytest.fixture(params=FILES, ids=lambda file: file.stem)
def exchange(request: pytest.FixtureRequest) -> Exchange:
    """Every exchange there is, one after the other."""
    return load(request.param)


@pytest.fixture(params=[file for file in FILES if file.stem.endswith("-body")], ids=lambda file: file.stem)
def body(request: pytest.FixtureRequest) -> Exchange:
    """Every exchange whose response is one body."""
    return load(request.param)


@pytest.fixture(params=[file for file in FILES if "stream" in file.stem or "array" in file.stem], ids=lambda f: f.stem)
def streamed(request: pytest.FixtureRequest) -> Exchange:
    """Every exchange whose response is a stream."""
    return load(request.param)
