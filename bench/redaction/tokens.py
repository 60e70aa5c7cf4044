"""Keys of known providers, in the providers' own forms; random from the seed, so nobody's."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable

from .checks import crc62
from .forms import ALNUM, BASE32, DIGITS, LETTERS, LOWER_HEX, URLSAFE, Form, digits, encoded, mixed, pick, word
from .marked import Marked, sensitive

Text = Callable[[random.Random], str]


def _token(kind: str, text: Text) -> Callable[[random.Random], Marked]:
    return lambda rng: sensitive(text(rng), kind)


def _crc(prefix: str) -> Text:
    def text(rng: random.Random) -> str:
        body = mixed(rng, 30)
        return f"{prefix}{body}{crc62(body)}"

    return text


def _tail(prefix: str, size: int, alphabet: str = ALNUM, end: str = "") -> Text:
    """A prefix, random characters, and sometimes a fixed end."""
    if alphabet in (ALNUM, URLSAFE):
        return lambda rng: f"{prefix}{mixed(rng, size - 1, alphabet)}{pick(rng, ALNUM, 1)}{end}"
    return lambda rng: f"{prefix}{pick(rng, alphabet, size)}{end}"


def _openai(prefix: str, size: int, alphabet: str) -> Text:
    # The middle is the same in all of OpenAI's keys: base64 of "OpenAI".
    return lambda rng: (
        f"{prefix}{mixed(rng, size, alphabet)}T3BlbkFJ{mixed(rng, size, alphabet)[:-1]}{pick(rng, ALNUM, 1)}"
    )


def _pypi(rng: random.Random) -> str:
    macaroon = bytes([2, 1, 8]) + b".".join((b"pypi", b"org")) + bytes([2, 36]) + rng.randbytes(110)
    return f"pypi-{base64.urlsafe_b64encode(macaroon).decode().rstrip('=')}"


def _discord(rng: random.Random) -> str:
    user = base64.b64encode(digits(rng, 18).encode()).decode()
    return f"{user}.{pick(rng, URLSAFE, 6)}.{mixed(rng, 37, URLSAFE)}{pick(rng, ALNUM, 1)}"


def _jwt(rng: random.Random) -> str:
    header = {"alg": rng.choice(("HS256", "ES256")), "typ": "JWT"}
    issued = 1_700_000_000 + rng.randrange(10**7)
    claims = {"iss": f"https://{word(rng)}.io", "sub": pick(rng, LOWER_HEX, 12), "iat": issued, "exp": issued + 3600}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in (header, claims)]
    parts.append(rng.randbytes(32 if header["alg"] == "HS256" else 64))
    return ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts)


def _azure_client(rng: random.Random) -> str:
    return f"{mixed(rng, 3)}{pick(rng, DIGITS, 1)}Q~{mixed(rng, 33, ALNUM + '_.~-')}{pick(rng, ALNUM, 1)}"


_SLACK = "https://hooks.slack.com/services/"
_TOKENS: dict[str, tuple[str, Text]] = {
    "aws-access-key-id": ("aws-key-id", lambda rng: f"AKIA{pick(rng, BASE32, 16)}"),
    "aws-temporary-key-id": ("aws-key-id", lambda rng: f"ASIA{pick(rng, BASE32, 16)}"),
    "gcp-api-key": ("gcp-key", _tail("AIza", 35, URLSAFE)),
    "gcp-oauth-secret": ("gcp-key", _tail("GOCSPX-", 28, URLSAFE)),
    "azure-client-secret": ("azure-secret", _azure_client),
    "github-classic": ("github", _crc("ghp_")),
    "github-oauth": ("github", _crc("gho_")),
    "github-app": ("github", _crc("ghs_")),
    "github-fine-grained": ("github", lambda rng: f"github_pat_{mixed(rng, 22)}_{mixed(rng, 59)}"),
    "gitlab-personal": ("gitlab", _tail("glpat-", 20, URLSAFE)),
    "gitlab-runner": ("gitlab", _tail("glrt-", 20, URLSAFE)),
    "slack-bot": ("slack", lambda rng: f"xoxb-{digits(rng, 12)}-{digits(rng, 13)}-{mixed(rng, 24)}"),
    "slack-user": (
        "slack",
        lambda rng: f"xoxp-{digits(rng, 12)}-{digits(rng, 12)}-{digits(rng, 13)}-{pick(rng, LOWER_HEX, 32)}",
    ),
    "stripe-live": ("stripe", _tail("sk_live_", 99)),
    "stripe-old-live": ("stripe", _tail("sk_live_", 24)),
    "stripe-test": ("stripe", _tail("sk_test_", 99)),
    "stripe-restricted": ("stripe", _tail("rk_live_", 99)),
    "stripe-webhook": ("stripe", _tail("whsec_", 32)),
    "openai-old": ("openai", _openai("sk-", 20, ALNUM)),
    "openai-project": ("openai", _openai("sk-proj-", 74, URLSAFE)),
    "openai-service-account": ("openai", _openai("sk-svcacct-", 74, URLSAFE)),
    "anthropic": ("anthropic", _tail("sk-ant-api03-", 93, URLSAFE, "AA")),
    "anthropic-admin": ("anthropic", _tail("sk-ant-admin01-", 93, URLSAFE, "AA")),
    "huggingface": ("huggingface", _tail("hf_", 34, LETTERS)),
    "npm": ("npm", _crc("npm_")),
    "pypi": ("pypi", _pypi),
    "jwt": ("jwt", _jwt),
    "sendgrid": (
        "sendgrid",
        lambda rng: f"SG.{mixed(rng, 22, URLSAFE)}.{mixed(rng, 42, URLSAFE)}{pick(rng, ALNUM, 1)}",
    ),
    "twilio-key": ("twilio", _tail("SK", 32, LOWER_HEX)),
    "discord-bot": ("discord", _discord),
    "telegram-bot": ("telegram", lambda rng: f"{digits(rng, 10)}:AA{mixed(rng, 32, URLSAFE)}{pick(rng, ALNUM, 1)}"),
    "mailchimp": ("mailchimp", lambda rng: f"{pick(rng, LOWER_HEX, 32)}-us{rng.randint(1, 21)}"),
    "digitalocean": ("digitalocean", _tail("dop_v1_", 64, LOWER_HEX)),
    "shopify": ("shopify", _tail("shpat_", 32, LOWER_HEX)),
    "databricks": ("databricks", _tail("dapi", 32, LOWER_HEX)),
    "docker": ("docker", _tail("dckr_pat_", 27, URLSAFE)),
    "grafana": ("grafana", lambda rng: f"glsa_{mixed(rng, 32)}_{pick(rng, LOWER_HEX, 8)}"),
    "groq": ("groq", _tail("gsk_", 52)),
    "replicate": ("replicate", _tail("r8_", 37)),
    "vault": ("vault", _tail("hvs.", 95, URLSAFE)),
    "linear": ("linear", _tail("lin_api_", 40)),
    "langsmith": ("langsmith", lambda rng: f"lsv2_pt_{pick(rng, LOWER_HEX, 32)}_{pick(rng, LOWER_HEX, 10)}"),
    "new-relic": ("new-relic", _tail("NRAK-", 27, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")),
    "rubygems": ("rubygems", _tail("rubygems_", 48, LOWER_HEX)),
}


def _slack_webhook(rng: random.Random) -> Marked:
    team, channel = (pick(rng, BASE32, 10) for _ in range(2))
    return f"{_SLACK}T{team}/B{channel}/" + sensitive(mixed(rng, 24), "slack")


def _discord_webhook(rng: random.Random) -> Marked:
    return f"https://discord.com/api/webhooks/{digits(rng, 19)}/" + sensitive(mixed(rng, 67) + "a", "discord")


def _azure_storage(rng: random.Random) -> Marked:
    start = f"DefaultEndpointsProtocol=https;AccountName={word(rng)};AccountKey="
    return start + sensitive(encoded(rng, 64), "azure-secret") + ";EndpointSuffix=core.windows.net"


FORMS = [
    *(Form(name, _token(kind, text)) for name, (kind, text) in _TOKENS.items()),
    Form("slack-webhook", _slack_webhook),
    Form("discord-webhook", _discord_webhook),
    Form("azure-storage-connection", _azure_storage),
]
