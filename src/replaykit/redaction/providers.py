"""Providers: the forms of the keys that services issue.

Lengths are those seen in practice, with some margin for providers that have changed them before.
"""

from __future__ import annotations

import re
from functools import cached_property

from msgspec import Struct

from replaykit.redaction.checksums import has_jwt_header
from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy, lazy_automaton

# A row: kind, literals (one of which must occur), and form of a token; `{}` stands for the literal.
_ROWS = r"""
github-token  ghp_ gho_ ghu_ ghs_ ghr_  {}[A-Za-z0-9]{36,255}
github-token  github_pat_  {}[A-Za-z0-9_]{50,255}
gitlab-token  glpat- gldt- glptt- glrt- glcbt- glft- glsoat- glimt-  {}[\w.=-]{20,300}
gitlab-token  glagent- gloas- glffct- GR1348941  {}[\w.=-]{20,300}
slack-token  xoxb- xoxp- xoxa- xoxr- xoxs- xoxo- xoxe- xoxe. xoxc- xoxd- xapp-  {}[A-Za-z0-9%.-]{10,400}
stripe-key  sk_live_ sk_test_ rk_live_ rk_test_ sk_prod_ rk_prod_  {}[A-Za-z0-9]{10,250}
stripe-key  whsec_  {}[A-Za-z0-9+/=]{24,100}
anthropic-key  sk-ant-  {}[\w-]{20,300}
openrouter-key  sk-or-  {}(?:v\d-)?[0-9a-zA-Z]{30,100}
langfuse-key  sk-lf-  {}<uuid>
openai-key  sk-proj- sk-svcacct- sk-admin- sk-None-  {}[\w-]{20,300}
openai-key  sk-  {}(?:[A-Za-z0-9]{10,60}T3BlbkFJ[A-Za-z0-9]{10,60}|[A-Za-z0-9]{32,128})
openai-key  sess-  {}[A-Za-z0-9]{40}
huggingface-token  hf_  {}[A-Za-z0-9]{30,80}
huggingface-token  api_org_  {}[A-Za-z0-9]{30,80}
npm-token  npm_  {}[A-Za-z0-9]{36}
pypi-token  pypi-  {}[\w-]{40,500}
aws-key  AKIA ASIA ABIA ACCA  {}[A-Z2-7]{16}
aws-key  ABSK  {}[A-Za-z0-9+/]{90,150}={0,2}
gcp-key  AIza  {}[\w-]{35}
gcp-key  GOCSPX-  {}[\w-]{28}
gcp-key  ya29.  {}[\w.-]{30,2000}
azure-key  Q~  (?<=\d){}[\w~.-]{31,34}
sendgrid-key  SG.  {}[\w-]{16,32}\.[\w-]{16,64}
twilio-key  SK  {}[0-9a-f]{32}
mailgun-key  key-  {}[0-9a-f]{32}
mailgun-key  pubkey-  {}[0-9a-f]{32}
mailchimp-key  -us  (?<=[0-9a-f]{32}){}\d{1,2}
brevo-key  xkeysib- xsmtpsib-  {}[0-9a-f]{64}-[A-Za-z0-9]{16}
resend-key  re_  {}[A-Za-z0-9]{6,10}_[A-Za-z0-9]{20,30}
digitalocean-token  dop_v1_ doo_v1_ dor_v1_  {}[0-9a-f]{64}
shopify-token  shpat_ shpca_ shppa_ shpss_ shptka_ shpua_  {}[0-9a-fA-F]{32}
telegram-token  :AA  (?<=\d){}[\w-]{32,34}
discord-token  .  (?<=[\w-]{24}){}[\w-]{6}\.[\w-]{27,40}
heroku-key  HRKU-  {}[\w-]{30,80}
atlassian-token  ATATT3 ATCTT3  {}[\w=-]{100,260}
atlassian-token  ATBB  {}[A-Za-z0-9]{32}
linear-key  lin_api_ lin_oauth_  {}[A-Za-z0-9]{32,70}
notion-token  secret_  {}[A-Za-z0-9]{43}
notion-token  ntn_  {}[A-Za-z0-9]{40,60}
databricks-token  dapi dose  {}[0-9a-f]{32}(?:-\d)?
vault-token  hvs. hvb. hvr.  {}[\w-]{24,300}
doppler-token  dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit.  {}(?:[\w-]{2,35}\.)?[A-Za-z0-9]{40,44}
groq-key  gsk_  {}[A-Za-z0-9]{40,80}
xai-key  xai-  {}[A-Za-z0-9]{60,100}
replicate-token  r8_  {}[A-Za-z0-9]{37,40}
perplexity-key  pplx-  {}[A-Za-z0-9]{40,64}
fireworks-key  fw_  {}[A-Za-z0-9]{22,32}
langsmith-key  lsv2_pt_ lsv2_sk_ ls__  {}[0-9a-f]{32}(?:_[0-9a-f]{10})?
tavily-key  tvly-  {}[\w-]{20,60}
firecrawl-key  fc-  {}[0-9a-f]{32}
e2b-key  e2b_  {}[0-9a-f]{40}
elevenlabs-key  sk_  {}[0-9a-f]{48}
nvidia-key  nvapi-  {}[\w-]{50,80}
cerebras-key  csk-  {}[a-z0-9]{40,60}
together-key  tgp_v1_  {}[\w-]{40,60}
voyage-key  pa-  {}[\w-]{40,50}
jina-key  jina_  {}[\w-]{55,70}
pinecone-key  pcsk_  {}[\w]{50,90}
supabase-key  sbp_  {}(?:oauth_)?[0-9a-f]{40}
supabase-key  sb_secret_  {}[\w-]{20,60}
netlify-token  nfp_  {}[A-Za-z0-9]{36,44}
vercel-token  vcp_ vci_ vca_ vcr_ vck_  {}[A-Za-z0-9]{24,80}
planetscale-token  pscale_tkn_ pscale_pw_ pscale_oauth_  {}[\w=.-]{32,64}
render-key  rnd_  {}[A-Za-z0-9]{28,36}
fly-token  fm1r_ fm2_ fo1_ fm1a_  {}[\w+/=-]{40,2000}
postman-key  PMAK-  {}[0-9a-f]{24}-[0-9a-f]{34}
grafana-token  glsa_  {}[A-Za-z0-9]{32}_[0-9a-fA-F]{8}
grafana-token  glc_  {}[A-Za-z0-9+/=]{32,400}
newrelic-key  NRAK- NRII- NRIQ- NRRA- NRJS-  {}[A-Za-z0-9_-]{19,42}
sentry-token  sntrys_ sntryu_  {}[\w+/=-]{50,400}
dynatrace-token  dt0c01. dt0s01. dt0s02.  {}[A-Z0-9]{8,24}\.[A-Z0-9]{64}
figma-token  figd_ figo_ figu_  {}[\w-]{36,60}
airtable-token  pat  {}[A-Za-z0-9]{14}\.[0-9a-f]{64}
hubspot-token  pat-na1- pat-eu1- pat-na2-  {}<uuid>
square-token  sq0atp- sq0csp- sq0idp-  {}[\w-]{22,43}
square-token  EAAA  {}[\w-]{56,64}
facebook-token  EAA  {}[A-Za-z0-9]{80,400}
twitter-token  AAAAAAAAAAAAAAAAAAAAA  {}[A-Za-z0-9%]{60,120}
paypal-token  access_token$production$ access_token$sandbox$  {}[0-9a-z]{16}\$[0-9a-f]{32}
plaid-token  access-sandbox- access-production- access-development-  {}<uuid>
razorpay-key  rzp_live_ rzp_test_  {}[A-Za-z0-9]{14,24}
rubygems-key  rubygems_  {}[0-9a-f]{48}
crates-token  cio  {}[A-Za-z0-9]{32}
nuget-key  oy2  {}[a-z0-9]{43}
replaykit-token  replaykit-  {}[0-9a-f]{32}
docker-token  dckr_pat_ dckr_oat_  {}[\w-]{24,64}
terraform-token  .atlasv1.  (?<=[A-Za-z0-9]{14}){}[\w-]{60,70}
pulumi-token  pul-  {}[0-9a-f]{40}
circleci-token  CCIPAT_ CCIPRJ_  {}[A-Za-z0-9]{16,32}_[0-9a-f]{40}
buildkite-token  bkua_ bkat_  {}[A-Za-z0-9]{40}
sonar-token  sqp_ squ_ sqa_  {}[0-9a-f]{40}
artifactory-key  AKCp  {}[A-Za-z0-9]{60,80}
alibaba-key  LTAI  {}[A-Za-z0-9]{16,24}
tencent-key  AKID  {}[A-Za-z0-9]{32}
yandex-key  AQVN  {}[\w-]{35,40}
age-key  AGE-SECRET-KEY-1  {}[QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L]{58}
onepassword-token  ops_eyJ  {}[A-Za-z0-9+/=]{100,1200}
tailscale-key  tskey-  {}[a-z]{3,10}-[\w-]{10,80}
mapbox-token  sk.eyJ  {}[\w-]{40,200}\.[\w-]{20,40}
contentful-token  CFPAT-  {}[\w-]{43}
prefect-key  pnu_ pnb_  {}[A-Za-z0-9]{36}
mailersend-key  mlsn.  {}[0-9a-f]{64}
shippo-key  shippo_live_ shippo_test_  {}[0-9a-f]{40}
typeform-token  tfp_  {}[\w-]{40,70}
zapier-token  sk-ak-  {}[\w-]{20,80}
posthog-key  phx_ phc_  {}[\w-]{40,60}
cloudflare-token  cfut_ cfat_  {}[\w-]{40,80}
wandb-key  wandb_v1_  {}[\w-]{40,120}
jwt  eyJ  {}[\w-]{8,4000}+\.[\w-]{2,16000}+(?:\.[\w-]{0,8000}+){0,3}
private-key  MIIE MIIC MIIJ MIIB MIIG  {}[A-Za-z0-9+/]{2,6}IBAAK[A-Za-z0-9+/\s\\=]{60,8000}+
private-key  MIIE MIIC MIIJ MIIB MIIG  {}[A-Za-z0-9+/]{0,8}ADANBgkqhkiG9w0BAQEFAAS[A-Za-z0-9+/\s\\=]{60,8000}+
private-key  b3BlbnNzaC1rZXktdjE  {}[A-Za-z0-9+/\s\\=]{60,8000}+
"""
_UUID = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
# How far before the literal a token may begin.
_BACK = {"azure-key": 4, "mailchimp-key": 32, "telegram-token": 13, "discord-token": 28, "terraform-token": 14}
_BACK_FORM = lazy(rb"[A-Za-z0-9_~-]+\Z")
_BOT_ID = lazy(rb"(?<!\d)\d{6,12}\Z")  # the id of a Telegram bot, which follows `bot` in URLs


class Provider(Struct, frozen=True, dict=True):
    """One literal of a row, and the form of a token from there on."""

    kind: str
    literal: bytes
    form: str

    @property
    def is_loose(self) -> bool:
        """True if the literal is inside the token."""
        return self.form.startswith("(?<=")

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        """The compiled form. Most literals never occur."""
        form = self.form.replace("{}", re.escape(self.literal.decode()), 1)
        if not self.is_loose:
            form = "(?<![A-Za-z0-9])" + form
        return re.compile(f"{form}(?![A-Za-z0-9])".encode())

    def token(self, flat: bytes, at: int) -> Hit | None:
        """Return the token whose literal is at this position."""
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
            if head:
                start = head.start()
            if flat[start - 1 : start].isalnum():
                return None
        if self.kind == "jwt" and not has_jwt_header(flat[start:end]):
            return None
        return Hit(self.kind, start, end, 1)


LOOSE: list[Provider] = []
"""Providers whose literal is inside the token."""
BOUND: dict[bytes, list[Provider]] = {}
"""Providers whose tokens begin with their literal, by literal."""
LITERALS: dict[str, list[str]] = {}
"""The prefixes of a provider's keys by kind, longest first."""
_NO_PREFIX = ("jwt", "private-key")  # their prefixes are encoded text rather than a mark of the provider

for _row in _ROWS.split("\n")[1:-1]:
    _kind, _literals, _form = _row.replace("<uuid>", _UUID).split("  ")
    for _literal in _literals.split():
        _provider = Provider(_kind, _literal.encode(), _form)
        if _provider.is_loose:
            LOOSE.append(_provider)
            continue
        BOUND.setdefault(_provider.literal, []).append(_provider)
        if _kind not in _NO_PREFIX:
            LITERALS.setdefault(_kind, []).append(_literal)
for _words in LITERALS.values():
    _words.sort(key=len, reverse=True)


def _branches(words: list[str]) -> str:
    """Return an alternation that checks each character only once: `gh(?:p_|o_)`, not `ghp_|gho_`."""
    heads: dict[str, list[str]] = {}
    for word in words:
        heads.setdefault(word[:1], []).append(word[1:])
    if heads.pop("", None) is None:
        return _alternation(heads)
    if not heads:
        return ""
    return f"(?:{_alternation(heads)})?"  # the longest literal is tried first


def _alternation(heads: dict[str, list[str]]) -> str:
    parts = [re.escape(head) + _branches(tails) for head, tails in sorted(heads.items())]
    if len(parts) == 1:
        return parts[0]
    return f"(?:{'|'.join(parts)})"


def _begin() -> bytes:
    return f"(?<![A-Za-z0-9])(?:{_branches(list(map(bytes.decode, BOUND)))})".encode()


BEGIN = lazy(_begin)
"""Matches where a token may begin."""
LITERAL_FINDER = lazy_automaton(BOUND)
"""Finds the literals that tokens begin with."""


def token_at(flat: bytes, at: int, literal: bytes) -> Hit | None:
    """Return the token with this literal or a shorter one: `sk-` if `sk-proj-` does not match."""
    for length in range(len(literal), 1, -1):
        for provider in BOUND.get(literal[:length], ()):
            token = provider.token(flat, at)
            if token:
                return token
    return None
