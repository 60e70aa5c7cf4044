"""Telling names: keys, headers and variables whose value is secret or personal, whatever it looks like.

A name is split into words (`X-Api-Key`, `apiKey`, `API_KEY` are all `api key`), and the last words decide:
`db_password` is telling, `password_policy` is not.
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import lru_cache

from msgspec import Struct

from replaykit.model.text_lines import words_of


class Trust(IntEnum):
    """How much a name proves: the values next to it that count as secret."""

    RANDOM = 1  # machine-generated ones: `token`, `*_key`
    SECRET = 2  # hard-to-guess ones: `secret`
    ANY = 3  # all but stand-ins: `password`
    NUMBER = 4  # values with digits: `ssn`, `pin`
    COOKIE = 5  # values with an equals sign


class NameHint(Struct, frozen=True):
    """What a name says about its value."""

    kind: str
    trust: Trust
    is_own: bool = False
    """True for a name that the project added."""


_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_A-Za-z]+|\d+")

_PASSWORDS = words_of(
    "password passwd passwort passphrase passcode passwrd pwd pass kennwort contrasena contraseña senha "
    "motdepasse mdp wachtwoord haslo hasło heslo lozinka geslo jelszo jelszó parola sifre şifre salasana "
    "losenord lösenord adgangskode пароль 密码 密碼 口令 パスワード 비밀번호 암호 mnemonic seedphrase recoveryphrase"
)
_SECRETS = words_of(
    "secret secrets secreto apisecret clientsecret appsecret consumersecret sharedsecret webhooksecret "
    "signingsecret otpsecret totpsecret credential credentials authorization proxyauthorization"
)
_RANDOM = words_of(
    "apikey apitoken authtoken accesstoken refreshtoken idtoken bearertoken sessiontoken token tokens jwt "
    "bearer auth accesskey secretkey secretaccesskey privatekey authkey signingkey encryptionkey masterkey "
    "accountkey sharedkey sharedaccesskey storagekey servicekey sessionkey subscriptionkey licensekey "
    "deploykey appkey applicationkey clientkey consumerkey serverkey adminkey rootkey sshkey hmackey aeskey "
    "ingestkey integrationkey webhookkey instrumentationkey functionskey hostkey readkey writekey projectkey "
    "userkey primarykeyvalue sas sastoken csrftoken xsrftoken apikeys accesstokens privkey secretkeybase "
    "apikeysecret authcode authsecret oauthtoken sessionsecret"
)
_PERSONAL = {
    "ssn": "ssn socialsecurity socialsecuritynumber socialsecurityno sozialversicherungsnummer",
    "card": "cardnumber cardno ccnumber ccnum creditcard creditcardnumber creditcardno debitcard debitcardnumber pan "
    "kartennummer numerodecarte numerotarjeta cardnum",
    "iban": "iban",
    "imei": "imei",
    "secret": "cvv cvc cvv2 cvc2 csc pin pincode pinnumber otp otpcode mfacode securitycode verificationcode",
    "phone": "phone phonenumber phoneno mobile mobilenumber mobileno mobilephone cellphone telephone telephonenumber "
    "tel telefon telefonnummer telefono teléfono telefone celular handynummer fax faxnumber msisdn whatsapp",
    "id-number": "passport passportnumber passportno passportid nationalid nationalidnumber nationalidentitynumber "
    "nationalinsurancenumber nino identitycard identitycardnumber idcard idcardnumber personalausweis ausweisnummer "
    "reisepass reisepassnummer driverslicense driverslicence driverlicense driverlicence driverslicensenumber "
    "driverslicencenumber driverlicensenumber driverlicencenumber drivinglicence drivinglicense drivinglicencenumber "
    "drivinglicensenumber licensenumber licencenumber taxid taxidnumber taxidentificationnumber taxpayerid tin itin "
    "steuerid steuernummer aadhaar aadhaarnumber pannumber cpf cnpj dni nie nif codicefiscale personnummer bsn pesel "
    "curp medicare medicarenumber nhsnumber healthinsurancenumber healthid socialinsurancenumber",
}
_KEY_WORDS = frozenset(
    words_of(
        "api access secret private auth encryption signing account storage service master shared subscription "
        "license deploy app application client consumer server admin root ssh gpg pgp aes hmac session ingest "
        "integration webhook instrumentation functions hosting openai anthropic stripe sendgrid datadog mailgun "
        "twilio aws azure gcp google github gitlab cohere mistral groq replicate huggingface hf newrelic pinecone "
        "algolia heroku okta sentry"
    )
)
_NOT_TOKEN = frozenset(
    words_of(
        "page next nextpage continuation pagination cursor sync max min num stop eos bos pad unk sep cls mask "
        "special start end first last total prompt completion input output cached reasoning new per word sub image "
        "audio text no current previous prev expected unexpected any every each this that the a of invalid tokens "
        "resume remaining limit used"
    )
)
_LATER = frozenset(words_of(
    "nr no num value val b64 base64 encoded prod production dev development staging stage test live old new raw plain "
    "plaintext text string str here backup main default primary secondary env variable"
))  # fmt: skip

STEMS = tuple(
    b"pass pwd secret token key auth cred jwt cookie senha contrase kennwort wachtwoord mnemonic bearer".split()
)
"""Stems, in lower case, of all secret names that are searched outside quotes; each name has one."""
WIDE_STEMS = {"п": "парол", "П": "парол", "密": "密码 密碼", "口": "口令", "ワ": "パスワード", "비": "비밀번호",
              "암": "암호",
              "ł": "hasło", "ş": "şifre", "Ş": "şifre", "ö": "lösenord", "ó": "jelszó", "ñ": "contraseña"}  # fmt: skip
"""The same beyond ASCII, by a character in the stem: searching for one character is fast."""
NUMBER_STEMS = tuple(b"ssn social card cvv cvc pin otp licen national tax".split())
"""The same for names of numbers; used only for texts with digits."""


_TABLE = {
    **dict.fromkeys(_PASSWORDS, NameHint("secret", Trust.ANY)),
    **dict.fromkeys(_SECRETS, NameHint("secret", Trust.SECRET)),
    **dict.fromkeys(_RANDOM, NameHint("secret", Trust.RANDOM)),
    **dict.fromkeys(("cookie", "setcookie", "cookies"), NameHint("secret", Trust.COOKIE)),
}
for _kind, _names in _PERSONAL.items():
    _TABLE |= dict.fromkeys(_names.split(), NameHint(_kind, Trust.NUMBER))


def words(name: str) -> list[str]:
    """Split a name into lower-case words, whatever its style."""
    return list(map(str.lower, _WORD.findall(name)))


_OPENING = b"\\\"'`([{*>"


def several_words(flat: bytes, start: int, end: int) -> bytes:
    """Return the name that ends at `end`, with the word or two before it."""
    first = start
    for _ in range(2):
        first = flat.rfind(b" ", max(0, first - 16), first - 1) + 1 or max(0, first - 16)
        if flat[first:start] not in (b"de ", b"of "):
            break
    return flat[first:end].lstrip(_OPENING)


def compact(name: str) -> str:
    """Return the words of a name without separators."""
    return "".join(words(name))


@lru_cache(maxsize=4096)
def hint_of_name(name: str) -> NameHint | None:
    """Return what a name says about its value, if anything."""
    if not 2 <= len(name) <= 80:
        return None
    parts = words(name)
    hint = _longest_match(parts[-5:], name)
    while hint is None and len(parts) > 1 and (parts[-1] in _LATER or parts[-1].isdigit()):
        parts.pop()
        hint = _longest_match(parts[-5:], name)
    return hint


def _longest_match(parts: list[str], name: str) -> NameHint | None:
    if not parts:
        return None
    *_, last = parts
    before = ""
    for first, word in enumerate(parts):
        hint = _TABLE.get("".join(parts[first:]))
        if hint is None:
            before = word
            continue
        if hint.trust is Trust.RANDOM and last in ("token", "tokens", "auth") and before in _NOT_TOKEN:
            return None
        if parts == ["tokens"] or _has_other_sense(parts[first:], before):
            return None
        return hint
    if last in ("key", "keys") and len(parts) > 1:
        owner = parts[-2]
        if owner in _KEY_WORDS or name.isupper():
            if owner in ("public", "primary", "foreign", "cache", "sort", "partition"):
                return None
            return _TABLE["apikey"]
    return _glued(last)


def _has_other_sense(parts: list[str], before: str) -> bool:
    """Return whether the words mean something else in context: `spin`, `by pass`, `first pass`."""
    is_short = parts in (["pass"], ["pin"], ["auth"])
    return is_short and before in ("by", "first", "second", "test", "single", "multi", "one", "two", "boarding", "gpio")


def _glued(word: str) -> NameHint | None:
    """Return the hint of a name without word borders: `dbpassword`, `mysqlpwd`, `githubtoken`."""
    for ending in ("password", "passwort", "passwd", "pwd", "passphrase", "apikey", "secretkey", "accesskey", "secret"):
        if word.endswith(ending):
            return _TABLE[ending]
    if word.endswith("token") and len(word) > 7 and word[:-5] not in _NOT_TOKEN:
        return _TABLE["token"]
    return None
