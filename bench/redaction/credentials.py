"""Secrets without a provider's form: private keys, connection strings, headers, and what only its name gives away."""

from __future__ import annotations

import base64
import json
import random
import textwrap
from collections.abc import Callable
from urllib.parse import quote

from .forms import ALNUM, BASE64, LOWER_HEX, URLSAFE, Form, encoded, host, mixed, password, pick, word
from .marked import OPINION, Marked, plain, sensitive

_DER = {  # how the bytes of such a key begin
    "RSA PRIVATE KEY": (bytes.fromhex("308204a40201000282010100"), 1192),
    "EC PRIVATE KEY": (bytes.fromhex("30770201010420"), 121),
    "PRIVATE KEY": (bytes.fromhex("308204be020100300d06092a864886f70d0101010500048204a8"), 1218),
    "OPENSSH PRIVATE KEY": (b"openssh-key-v1\0\0\0\0\x04none\0\0\0\x04none\0\0\0\0\0\0\0\x01\0\0\0\x33", 350),
}


def _pem(label: str) -> Callable[[random.Random], Marked]:
    start, size = _DER[label]

    def make(rng: random.Random) -> Marked:
        body = base64.b64encode(start + rng.randbytes(size - len(start))).decode()
        lines = "\n".join(textwrap.wrap(body, 64))
        return f"-----BEGIN {label}-----\n" + sensitive(lines, "private-key") + f"\n-----END {label}-----\n"

    return make


def _service_account(rng: random.Random) -> Marked:
    project = f"{word(rng)}-{rng.randint(100, 999)}"
    key = _pem("PRIVATE KEY")(rng).map(lambda text: json.dumps(text)[1:-1])
    return (
        f'{{\n  "type": "service_account",\n  "project_id": "{project}",\n  "private_key_id": "'
        + sensitive(pick(rng, LOWER_HEX, 40), OPINION)
        + '",\n  "private_key": "'
        + key
        + '",\n  "client_email": "'
        + sensitive(f"runner@{project}.iam.gserviceaccount.com", OPINION)
        + '",\n  "token_uri": "https://oauth2.googleapis.com/token"\n}'
    )


_CONNECTIONS = {
    "postgres": "postgresql://{user}:\0@{host}:5432/{word}?sslmode=require",
    "mysql": "mysql+pymysql://{user}:\0@{host}/{word}",
    "mongodb": "mongodb+srv://{user}:\0@{host}/{word}?retryWrites=true",
    "redis": "redis://:\0@{host}:6379/0",
    "amqp": "amqps://{user}:\0@{host}:5671/%2F{word}",
    "jdbc": "jdbc:postgresql://{host}:5432/{word}?user={user}&password=\0&ssl=true",
    "odbc": "Driver={{ODBC Driver 18 for SQL Server}};Server={host};Database={word};Uid={user};Pwd=\0;Encrypt=yes;",
    "sqlserver": "Server=tcp:{host},1433;Initial Catalog={word};User ID={user};Password=\0;Encrypt=True;",
    "basic-auth-url": "https://{user}:\0@{host}/{word}.git",
    "ftp-url": "ftp://{user}:\0@{host}/{word}/",
    "smtp-url": "smtps://{user}%40{word}:\0@{host}:465",
}


def _connection(shape: str) -> Callable[[random.Random], Marked]:
    def make(rng: random.Random) -> Marked:
        secret = password(rng) if rng.random() < 0.5 else mixed(rng, rng.randint(14, 28))
        if "://" in shape and rng.random() < 0.3:
            secret = quote(f"{secret}@{rng.randint(1, 9)}/{word(rng)}", safe="")
        before, after = shape.format(user=word(rng), host=host(rng), word=word(rng)).split("\0")
        return before + sensitive(secret, "connection") + after

    return make


def _basic(rng: random.Random) -> Marked:
    pair = f"{word(rng)}:{mixed(rng, rng.randint(12, 24))}"
    return "Basic " + sensitive(base64.b64encode(pair.encode()).decode(), "basic-auth")


def _bearer(rng: random.Random) -> Marked:
    return "Bearer " + sensitive(mixed(rng, rng.choice((32, 43, 64)), rng.choice((ALNUM, URLSAFE))), "bearer")


_HEADER = ("Authorization", "authorization", "Proxy-Authorization")
_KEY_NAMES = (
    *("api_key", "apiKey", "API_KEY", "X-Api-Key", "apikey", "api-key", "x-api-token", "access_token", "accessToken"),
    *("client_secret", "clientSecret", "CLIENT_SECRET", "auth_token", "AUTH_TOKEN", "secret_key", "SECRET_KEY_BASE"),
    *("refresh_token", "private_token", "signing_secret", "webhookSecret", "encryption_key", "session_secret"),
    *("SERVICE_API_KEY", "stagingApiKey", "billing.api.key", "clave_api", "cle_api", "api_schluessel"),
)
_PASSWORD_NAMES = (
    *("password", "passwd", "pwd", "PASSWORD", "db_password", "DB_PASS", "dbPassword", "passphrase", "root_password"),
    *("POSTGRES_PASSWORD", "smtp_pwd", "userPassword", "passwort", "contraseña", "mot_de_passe"),
)


def _named(kind: str, text: Callable[[random.Random], str]) -> Callable[[random.Random], Marked]:
    return lambda rng: sensitive(text(rng), kind)


def _curl(rng: random.Random) -> Marked:
    return f"curl -u {word(rng)}:" + sensitive(mixed(rng, 20), "basic-auth") + f" https://{host(rng)}/v1/{word(rng)}"


def _cookie(rng: random.Random) -> Marked:
    lines = f"GET /{word(rng)} HTTP/1.1\r\nHost: {host(rng)}\r\nCookie: theme=dark; session_token="
    return plain(lines) + sensitive(mixed(rng, 48, URLSAFE), "named-secret") + "\r\nAccept: */*\r\n\r\n"


FORMS = [
    *(Form(f"pem-{label.split()[0].lower()}", _pem(label), multiline=True) for label in _DER),
    Form("gcp-service-account", _service_account, multiline=True),
    *(Form(f"connection-{name}", _connection(shape)) for name, shape in _CONNECTIONS.items()),
    Form("basic-header", _basic, _HEADER, needs_name=True, places=30),
    Form("bearer-header", _bearer, _HEADER, needs_name=True, places=30),
    Form(
        "named-alnum", _named("named-secret", lambda rng: mixed(rng, rng.randint(24, 48))), _KEY_NAMES, True, places=30
    ),
    Form(
        "named-hex",
        _named("named-secret", lambda rng: pick(rng, LOWER_HEX, rng.choice((32, 40, 64)))),
        _KEY_NAMES,
        True,
        places=30,
    ),
    Form(
        "named-base64",
        _named("named-secret", lambda rng: encoded(rng, rng.choice((24, 32, 48)))),
        _KEY_NAMES,
        True,
        places=30,
    ),
    Form(
        "named-aws-secret",
        _named("aws-secret", lambda rng: mixed(rng, 40, BASE64)),
        ("aws_secret_access_key", "AWS_SECRET_ACCESS_KEY", "secretAccessKey", "SecretAccessKey"),
        needs_name=True,
    ),
    Form(
        "named-azure-account-key",
        _named("azure-secret", lambda rng: encoded(rng, 64)),
        ("AZURE_STORAGE_KEY", "account_key", "storageAccountKey"),
        needs_name=True,
    ),
    Form(
        "named-twilio",
        _named("twilio", lambda rng: pick(rng, LOWER_HEX, 32)),
        ("TWILIO_AUTH_TOKEN", "twilio_auth_token", "authToken"),
        needs_name=True,
    ),
    Form("named-password", _named("password", password), _PASSWORD_NAMES, needs_name=True, places=30),
    Form("curl-user", _curl, whole=True),
    Form("cookie-session", _cookie, whole=True),
]
