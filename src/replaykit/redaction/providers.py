"""Providers: the forms of the keys that services hand out. A row: kind, literals (one must be there), what follows it.

`{}` in a form stands for the literal. Lengths are those that were seen to be handed out, with some room where a
provider has changed them before.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, cached_property
from typing import TYPE_CHECKING

from msgspec import Struct

from replaykit.redaction.checksums import jwt_header
from replaykit.redaction.lazy_patterns import lazy

if TYPE_CHECKING:
    from ahocorasick_rs import BytesAhoCorasick

_HEX = "[0-9a-fA-F]"
_UUID = f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}"

_ROWS: tuple[tuple[str, str, str], ...] = (
    ("github-token", "ghp_ gho_ ghu_ ghs_ ghr_", r"{}[A-Za-z0-9]{36,255}"),
    ("github-token", "github_pat_", r"{}[A-Za-z0-9_]{50,255}"),
    (
        "gitlab-token",
        "glpat- gldt- glptt- glrt- glcbt- glft- glsoat- glimt- glagent- gloas- glffct- GR1348941",
        r"{}[\w.=-]{20,300}",
    ),
    ("slack-token", "xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe. xoxc- xoxd- xapp-", r"{}[A-Za-z0-9%.-]{10,400}"),
    ("stripe-key", "sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_", r"{}[A-Za-z0-9]{10,250}"),
    ("stripe-key", "whsec_", r"{}[A-Za-z0-9+/=]{24,100}"),
    ("anthropic-key", "sk-ant-", r"{}[\w-]{20,300}"),
    ("openrouter-key", "sk-or-", r"{}(?:v\d-)?[0-9a-zA-Z]{30,100}"),
    ("langfuse-key", "sk-lf-", r"{}" + _UUID),
    ("openai-key", "sk-proj- sk-svcacct- sk-admin- sk-None-", r"{}[\w-]{20,300}"),
    ("openai-key", "sk-", r"{}(?:[A-Za-z0-9]{10,60}T3BlbkFJ[A-Za-z0-9]{10,60}|[A-Za-z0-9]{32,128})"),
    ("openai-key", "sess-", r"{}[A-Za-z0-9]{40}"),
    ("huggingface-token", "hf_", r"{}[A-Za-z0-9]{30,80}"),
    ("huggingface-token", "api_org_", r"{}[A-Za-z0-9]{30,80}"),
    ("npm-token", "npm_", r"{}[A-Za-z0-9]{36}"),
    ("pypi-token", "pypi-", r"{}[\w-]{40,500}"),
    ("aws-key", "AKIA ASIA ABIA ACCA", r"{}[A-Z2-7]{16}"),
    ("aws-key", "ABSK", r"{}[A-Za-z0-9+/]{90,150}={0,2}"),
    ("gcp-key", "AIza", r"{}[\w-]{35}"),
    ("gcp-key", "GOCSPX-", r"{}[\w-]{28}"),
    ("gcp-key", "ya29.", r"{}[\w.-]{30,2000}"),
    ("azure-key", "Q~", r"(?<=\d){}[\w~.-]{31,34}"),
    ("sendgrid-key", "SG.", r"{}[\w-]{16,32}\.[\w-]{16,64}"),
    ("twilio-key", "SK", r"{}[0-9a-f]{32}"),
    ("mailgun-key", "key-", r"{}[0-9a-f]{32}"),
    ("mailgun-key", "pubkey-", r"{}[0-9a-f]{32}"),
    ("mailchimp-key", "-us", r"(?<=[0-9a-f]{32}){}\d{1,2}"),
    ("brevo-key", "xkeysib- xsmtpsib-", r"{}[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    ("resend-key", "re_", r"{}[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,30}"),
    ("digitalocean-token", "dop_v1_ doo_v1_ dor_v1_", r"{}[0-9a-f]{64}"),
    ("shopify-token", "shpat_ shpca_ shppa_ shpss_ shptka_ shpua_", r"{}[0-9a-fA-F]{32}"),
    ("telegram-token", ":AA", r"(?<=\d){}[\w-]{32,34}"),
    ("discord-token", ".", r"(?<=[\w-]{24}){}[\w-]{6}\.[\w-]{27,40}"),
    ("heroku-key", "HRKU-", r"{}[\w-]{30,80}"),
    ("atlassian-token", "ATATT3 ATCTT3", r"{}[\w=-]{100,260}"),
    ("atlassian-token", "ATBB", r"{}[A-Za-z0-9]{32}"),
    ("linear-key", "lin_api_ lin_oauth_", r"{}[A-Za-z0-9]{32,70}"),
    ("notion-token", "secret_", r"{}[A-Za-z0-9]{43}"),
    ("notion-token", "ntn_", r"{}[A-Za-z0-9]{40,60}"),
    ("databricks-token", "dapi dose", r"{}[0-9a-f]{32}(?:-\d)?"),
    ("vault-token", "hvs. hvb. hvr.", r"{}[\w-]{24,300}"),
    ("doppler-token", "dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.", r"{}(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}"),
    ("groq-key", "gsk_", r"{}[A-Za-z0-9]{40,80}"),
    ("xai-key", "xai-", r"{}[A-Za-z0-9]{60,100}"),
    ("replicate-token", "r8_", r"{}[A-Za-z0-9]{37,40}"),
    ("perplexity-key", "pplx-", r"{}[A-Za-z0-9]{40,64}"),
    ("fireworks-key", "fw_", r"{}[A-Za-z0-9]{22,32}"),
    ("langsmith-key", "lsv2_pt_ lsv2_sk_ ls__", r"{}[0-9a-f]{32}(?:_[0-9a-f]{10})?"),
    ("tavily-key", "tvly-", r"{}[\w-]{20,60}"),
    ("firecrawl-key", "fc-", r"{}[0-9a-f]{32}"),
    ("e2b-key", "e2b_", r"{}[0-9a-f]{40}"),
    ("elevenlabs-key", "sk_", r"{}[0-9a-f]{48}"),
    ("nvidia-key", "nvapi-", r"{}[\w-]{50,80}"),
    ("cerebras-key", "csk-", r"{}[a-z0-9]{40,60}"),
    ("together-key", "tgp_v1_", r"{}[\w-]{40,60}"),
    ("voyage-key", "pa-", r"{}[\w-]{40,50}"),
    ("jina-key", "jina_", r"{}[\w-]{55,70}"),
    ("pinecone-key", "pcsk_", r"{}[\w]{50,90}"),
    ("supabase-key", "sbp_", r"{}(?:oauth_)?[0-9a-f]{40}"),
    ("supabase-key", "sb_secret_", r"{}[\w-]{20,60}"),
    ("netlify-token", "nfp_", r"{}[A-Za-z0-9]{36,44}"),
    ("vercel-token", "vcp_ vci_ vca_ vcr_ vck_", r"{}[A-Za-z0-9]{24,80}"),
    ("planetscale-token", "pscale_tkn_ pscale_pw_ pscale_oauth_", r"{}[\w=.-]{32,64}"),
    ("render-key", "rnd_", r"{}[A-Za-z0-9]{28,36}"),
    ("fly-token", "fm1r_ fm2_ fo1_ fm1a_", r"{}[\w+/=-]{40,2000}"),
    ("postman-key", "PMAK-", r"{}[0-9a-f]{24}-[0-9a-f]{34}"),
    ("grafana-token", "glsa_", r"{}[A-Za-z0-9]{32}_[0-9a-fA-F]{8}"),
    ("grafana-token", "glc_", r"{}[A-Za-z0-9+/=]{32,400}"),
    ("newrelic-key", "NRAK- NRII- NRIQ- NRRA- NRJS-", r"{}[A-Za-z0-9_-]{19,42}"),
    ("sentry-token", "sntrys_ sntryu_", r"{}[\w+/=-]{50,400}"),
    ("dynatrace-token", "dt0c01. dt0s01. dt0s02.", r"{}[A-Z0-9]{8,24}\.[A-Z0-9]{64}"),
    ("figma-token", "figd_ figo_ figu_", r"{}[\w-]{36,60}"),
    ("airtable-token", "pat", r"{}[A-Za-z0-9]{14}\.[0-9a-f]{64}"),
    ("hubspot-token", "pat-na1- pat-eu1- pat-na2-", r"{}" + _UUID),
    ("square-token", "sq0atp- sq0csp- sq0idp-", r"{}[\w-]{22,43}"),
    ("square-token", "EAAA", r"{}[\w-]{56,64}"),
    ("facebook-token", "EAA", r"{}[A-Za-z0-9]{80,400}"),
    ("twitter-token", "AAAAAAAAAAAAAAAAAAAAA", r"{}[A-Za-z0-9%]{60,120}"),
    ("paypal-token", "access_token$production$ access_token$sandbox$", r"{}[0-9a-z]{16}\$[0-9a-f]{32}"),
    ("plaid-token", "access-sandbox- access-production- access-development-", r"{}" + _UUID),
    ("razorpay-key", "rzp_live_ rzp_test_", r"{}[A-Za-z0-9]{14,24}"),
    ("rubygems-key", "rubygems_", r"{}[0-9a-f]{48}"),
    ("crates-token", "cio", r"{}[A-Za-z0-9]{32}"),
    ("nuget-key", "oy2", r"{}[a-z0-9]{43}"),
    ("replaykit-token", "replaykit-", r"{}[0-9a-f]{32}"),
    ("docker-token", "dckr_pat_ dckr_oat_", r"{}[\w-]{24,64}"),
    ("terraform-token", ".atlasv1.", r"(?<=[A-Za-z0-9]{14}){}[\w-]{60,70}"),
    ("pulumi-token", "pul-", r"{}[0-9a-f]{40}"),
    ("circleci-token", "CCIPAT_ CCIPRJ_", r"{}[A-Za-z0-9]{16,32}_[0-9a-f]{40}"),
    ("buildkite-token", "bkua_ bkat_", r"{}[A-Za-z0-9]{40}"),
    ("sonar-token", "sqp_ squ_ sqa_", r"{}[0-9a-f]{40}"),
    ("artifactory-key", "AKCp", r"{}[A-Za-z0-9]{60,80}"),
    ("alibaba-key", "LTAI", r"{}[A-Za-z0-9]{16,24}"),
    ("tencent-key", "AKID", r"{}[A-Za-z0-9]{32}"),
    ("yandex-key", "AQVN", r"{}[\w-]{35,40}"),
    ("age-key", "AGE-SECRET-KEY-1", r"{}[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}"),
    ("onepassword-token", "ops_eyJ", r"{}[A-Za-z0-9+/=]{100,1200}"),
    ("tailscale-key", "tskey-", r"{}[a-z]{3,10}-[\w-]{10,80}"),
    ("mapbox-token", "sk.eyJ", r"{}[\w-]{40,200}\.[\w-]{20,40}"),
    ("contentful-token", "CFPAT-", r"{}[\w-]{43}"),
    ("prefect-key", "pnu_ pnb_", r"{}[A-Za-z0-9]{36}"),
    ("mailersend-key", "mlsn.", r"{}[0-9a-f]{64}"),
    ("shippo-key", "shippo_live_ shippo_test_", r"{}[0-9a-f]{40}"),
    ("typeform-token", "tfp_", r"{}[\w-]{40,70}"),
    ("zapier-token", "sk-ak-", r"{}[\w-]{20,80}"),
    ("posthog-key", "phx_ phc_", r"{}[\w-]{40,60}"),
    ("cloudflare-token", "cfut_ cfat_", r"{}[\w-]{40,80}"),
    ("wandb-key", "wandb_v1_", r"{}[\w-]{40,120}"),
    ("jwt", "eyJ", r"{}[\w-]{8,4000}+\.[\w-]{2,16000}+(?:\.[\w-]{0,8000}+){0,3}"),
    ("private-key", "MIIE MIIC MIIJ MIIB MIIG", r"{}[A-Za-z0-9+/]{2,6}IBAAK[A-Za-z0-9+/\s\\=]{60,8000}+"),
    (
        "private-key",
        "MIIE MIIC MIIJ MIIB MIIG",
        r"{}[A-Za-z0-9+/]{0,8}ADANBgkqhkiG9w0BAQEFAAS[A-Za-z0-9+/\s\\=]{60,8000}+",
    ),
    ("private-key", "b3BlbnNzaC1rZXktdjE", r"{}[A-Za-z0-9+/\s\\=]{60,8000}+"),
)

_CHECKS: dict[str, Callable[[str], bool]] = {"jwt": jwt_header}
_BACK = {"azure-key": 4, "mailchimp-key": 32, "telegram-token": 13, "discord-token": 28, "terraform-token": 14}
"""How far before the literal a token may begin."""
_BACK_FORM = lazy(rb"[A-Za-z0-9_~-]+\Z")
_BOT_ID = lazy(rb"(?<!\d)\d{6,12}\Z")
"""The number of a Telegram bot. In addresses `bot` stands before it."""


class Provider(Struct, frozen=True, dict=True):
    """One literal of a row, and the form that a token has from there on."""

    kind: str
    literal: bytes
    form: str

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """Compiled where the literal is seen for the first time: most never are."""
        before = "" if self.form.startswith("(?<=") else "(?<![A-Za-z0-9])"
        form = self.form.replace("{}", re.escape(self.literal.decode()), 1)
        return re.compile(f"{before}{form}(?![A-Za-z0-9])".encode())

    def span(self, flat: bytes, at: int) -> tuple[int, int] | None:
        """From where to where the token goes whose literal is at `at`."""
        found = self.pattern.match(flat, at)
        if found is None:
            return None
        start, end = found.span()
        end -= len(found[0]) - len(found[0].rstrip(b"."))  # the end of a sentence
        reach = _BACK.get(self.kind, 0)
        if self.kind == "telegram-token":
            number = _BOT_ID.search(flat, max(0, start - reach), start)
            if number is None:
                return None
            start = number.start()
        elif reach:
            head = _BACK_FORM.search(flat, max(0, start - reach), start)
            start = head.start() if head else start
            if flat[start - 1 : start].isalnum():
                return None
        return (start, end) if self._is_right(flat[start:end].decode()) else None

    def _is_right(self, token: str) -> bool:
        check = _CHECKS.get(self.kind)
        return check is None or check(token)


def _providers() -> tuple[tuple[Provider, ...], dict[bytes, tuple[Provider, ...]]]:
    loose: list[Provider] = []
    bound: dict[bytes, tuple[Provider, ...]] = {}
    for kind, literals, form in _ROWS:
        for literal in literals.encode().split():
            provider = Provider(kind, literal, form)
            if form.startswith("(?<="):
                loose.append(provider)
            else:
                bound[literal] = (*bound.get(literal, ()), provider)
    return tuple(loose), bound


LOOSE, BOUND = _providers()
"""Those whose literal stands inside of the token, and those that begin with it, by literal."""


def _literals() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for literal, providers in BOUND.items():
        for provider in providers:
            found.setdefault(provider.kind, []).append(literal.decode())
    return {
        kind: tuple(sorted(words, key=len, reverse=True)) for kind, words in found.items() if kind not in _NO_PREFIX
    }


_NO_PREFIX = ("jwt", "private-key")
"""The beginnings of these are encoded text, and no sign of who made them."""
LITERALS = _literals()
"""By kind, what the keys of a provider begin with, the longest first."""


def _branches(words: list[str]) -> str:
    """An alternation that looks at each character once: `gh(?:p_|o_)`, not `ghp_|gho_`."""
    heads: dict[str, list[str]] = {}
    for word in words:
        heads.setdefault(word[:1], []).append(word[1:])
    if "" in heads:  # the longest literal goes first, the shorter one is asked where no longer one is there
        rest = _branches([word for word in words if word])
        return f"(?:{rest})?" if rest else ""
    parts = [re.escape(head) + _branches(tails) for head, tails in sorted(heads.items())]
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


BEGIN = lazy(f"(?<![A-Za-z0-9])(?:{_branches([literal.decode() for literal in BOUND])})".encode())
"""Where a token may begin."""


def may_begin(run: bytes) -> bool:
    """False when none of the literals is in the run, as in most: asking so takes a third of a search for `BEGIN`."""
    return bool(_automaton().find_matches_as_indexes(run))


@cache
def _automaton() -> BytesAhoCorasick:
    from ahocorasick_rs import BytesAhoCorasick, Implementation  # noqa: PLC0415 (reading a store needs none of it)

    return BytesAhoCorasick(list(BOUND), implementation=Implementation.DFA)


def _heads() -> dict[bytes, tuple[bytes, ...]]:
    heads: dict[bytes, tuple[bytes, ...]] = {}
    for literal in BOUND:
        heads[literal[:2]] = (*heads.get(literal[:2], ()), literal)
    return heads


HEADS = _heads()
"""The same for who has no time to compile a pattern: the literals by their first two characters."""


def spans_at(flat: bytes, at: int, literal: bytes) -> tuple[str, int, int] | None:
    """The token that begins with this literal, or with a shorter one: `sk-` where `sk-proj-` leads to nothing."""
    for length in range(len(literal), 1, -1):
        for provider in BOUND.get(literal[:length], ()):
            span = provider.span(flat, at)
            if span:
                return provider.kind, *span
    return None
