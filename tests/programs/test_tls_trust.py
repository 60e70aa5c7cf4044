"""An upstream that speaks TLS: whom the proxy trusts, and that it is asked at all."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from tests.matrix import sampled
from tests.programs.conftest import Proxies, Upstream, completion, whole

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes a certificate with openssl")


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-keyout", "key.pem", "-out", "cert.pem", "-days", "2", "-subj", "/CN=localhost"]
    subprocess.run([*command, "-addext", "subjectAltName=IP:127.0.0.1"], cwd=tmp_path, check=True, capture_output=True)
    return tmp_path / "cert.pem"


@pytest.fixture
def secured(upstream: Upstream, certificate: Path) -> Upstream:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, certificate.with_name("key.pem"))
    upstream.secure(context)
    upstream.script = lambda asked: [whole(completion("over TLS"))]
    return upstream


def secure(proxies: Proxies, secured: Upstream) -> None:
    proxies.upstreams = {"openai": f"https://127.0.0.1:{secured.port}/v1"}


@sampled("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"], count=1)
def test_an_upstream_is_trusted_whose_certificate_the_user_has_named(
    proxies: Proxies, secured: Upstream, certificate: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    secure(proxies, secured)
    monkeypatch.setenv(variable, str(certificate))

    with proxies.record() as client:
        answer = client.chat()

    assert answer.body == completion("over TLS")
    assert client.run.llm_calls[0].result["content"] == "over TLS"


def test_no_other_is(proxies: Proxies, secured: Upstream) -> None:
    secure(proxies, secured)

    with proxies.record() as client:
        with pytest.raises(OSError):
            client.chat()

    (call,) = client.run.llm_calls
    assert call.error is not None
    assert "certificate" in call.error.message.lower()
    assert secured.asked == []
