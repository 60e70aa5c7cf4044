"""Keys of providers, and secrets that their surroundings give away."""

from __future__ import annotations

import base64
import json

import pytest
from tests.redaction.made_up_secrets import ALPHABET, drawn, hexed, jwt, pem, with_crc

from replaykit.redaction import find

TOKENS = {
    "github-token": [with_crc("ghp_"), with_crc("gho_"), f"github_pat_{drawn(22)}_{drawn(59)}"],
    "gitlab-token": ["glpat-" + drawn(20), "glrt-" + drawn(20)],
    "slack-token": [f"xoxb-{drawn(11, '0123456789')}-{drawn(12, '0123456789')}-{drawn(24)}"],
    "stripe-key": ["sk_live_" + drawn(24), "rk_test_" + drawn(24), "whsec_" + drawn(32)],
    "openai-key": [f"sk-{drawn(20)}T3BlbkFJ{drawn(20, seed=8)}", "sk-proj-" + drawn(60) + "T3BlbkFJ" + drawn(40)],
    "anthropic-key": ["sk-ant-api03-" + drawn(93) + "AA"],
    "huggingface-token": ["hf_" + drawn(34)],
    "npm-token": [with_crc("npm_")],
    "pypi-token": ["pypi-AgEIcHlwaS5vcmc" + drawn(80)],
    "aws-key": ["AKIA" + drawn(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"), "ASIA" + drawn(16, "ABCDEFGHIJKLMNOP234567")],
    "gcp-key": ["AIza" + drawn(35), "GOCSPX-" + drawn(28)],
    "azure-key": [f"{drawn(3)}8Q~{drawn(34)}"],
    "sendgrid-key": [f"SG.{drawn(22)}.{drawn(43)}"],
    "twilio-key": ["SK" + hexed(32)],
    "mailgun-key": ["key-" + hexed(32)],
    "mailchimp-key": [hexed(32) + "-us12"],
    "digitalocean-token": ["dop_v1_" + hexed(64)],
    "shopify-token": ["shpat_" + hexed(32)],
    "telegram-token": [f"{drawn(9, '123456789')}:AA{drawn(33)}"],
    "discord-token": [f"M{drawn(23)}.{drawn(6)}.{drawn(27)}"],
    "atlassian-token": ["ATATT3" + drawn(180)],
    "linear-key": ["lin_api_" + drawn(40)],
    "notion-token": ["ntn_" + drawn(46), "secret_" + drawn(43)],
    "databricks-token": ["dapi" + hexed(32)],
    "vault-token": ["hvs." + drawn(24)],
    "doppler-token": ["dp.pt." + drawn(43)],
    "groq-key": ["gsk_" + drawn(52)],
    "xai-key": ["xai-" + drawn(80)],
    "replicate-token": ["r8_" + drawn(37)],
    "firecrawl-key": ["fc-" + hexed(32)],
    "age-key": ["AGE-SECRET-KEY-1" + drawn(58, "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L")],
    "jwt": [jwt()],
}
PAIRS = [(kind, token) for kind, tokens in TOKENS.items() for token in tokens]
FRAMES = [
    "{}",
    "the key {} was leaked",
    'x = "{}"',
    "({})",
    "see {}.",
    '{{"a": ["{}"]}}',
    "line\\n{}\\nline",
    "https://example.com/cb?x={}&y=1",
    "a,{},b",
]


@pytest.mark.parametrize(("kind", "token"), PAIRS, ids=[f"{kind}-{token[:6]}" for kind, token in PAIRS])
def test_a_token_is_found_whole_in_every_frame(kind: str, token: str) -> None:
    for frame in FRAMES:
        text = frame.format(token)

        assert [(found.kind, text[found.start : found.end]) for found in find(text)] == [(kind, token)], frame


@pytest.mark.parametrize("prefix", ["ghp_", "npm_"])
def test_the_checksum_of_a_token_is_not_asked(prefix: str) -> None:
    token = with_crc(prefix)
    changed = token[:-1] + ("A" if token[-1] != "A" else "B")

    assert [text for text in (token, changed) if not find(text)] == []


def test_a_key_id_of_aws_has_no_digits_that_base32_has_not() -> None:
    assert find("AKIA" + "ABCDEFGH01890189") == []


def test_three_parts_without_a_header_are_no_jwt() -> None:
    assert find("eyJub3QiOiJhIGhlYWRlciJ9.eyJhIjoxfQ.c2lnbmF0dXJl") == []


@pytest.mark.parametrize("kind", ["RSA ", "EC ", "OPENSSH ", "", "ENCRYPTED "])
@pytest.mark.parametrize(
    "spelled", [lambda text: text, lambda text: text.replace("\n", "\\n"), lambda text: text.replace("\n", "\\\\n")]
)
def test_a_private_key_is_found_with_its_armour(kind: str, spelled: object) -> None:
    key = spelled(pem(kind))  # type: ignore[operator]
    text = f"before {key} after"

    (found,) = find(text)

    assert (found.kind, text[found.start : found.end]) == ("private-key", key)


def test_a_private_key_that_was_cut_off_is_found_to_the_end_of_its_text() -> None:
    cut = pem()[:-60]
    text = f'{cut}\n"and so on"'

    (found,) = find(text)

    assert text[found.start : found.end] == cut.rstrip()


def test_the_key_of_a_service_account_is_called_so() -> None:
    text = json.dumps({"type": "service_account", "private_key": pem("")})

    assert "gcp-service-account" in [found.kind for found in find(text)]


def test_the_secret_beside_a_key_id_of_aws_is_found_without_a_name() -> None:
    secret = drawn(40, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789/+")
    text = f"AKIA{drawn(16, 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567')},{secret}"

    assert [found.kind for found in find(text)] == ["aws-key", "aws-secret"]
    assert find(secret) == []


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("postgres://app:s3cr3t@db.example.com:5432/x", "connection-string", "s3cr3t"),
        ("mongodb+srv://u:p%40ss@c0.example.net/?w=1", "connection-string", "p%40ss"),
        ("redis://:hunter22@cache:6379/0", "connection-string", "hunter22"),
        ("amqp://guest:g0est!@mq//", "connection-string", "g0est!"),
        ("https://bob:hunter2@example.com/path", "url-credentials", "hunter2"),
        ("postgres://app:p@ss/w0rd@db:5432/x", "connection-string", "p@ss/w0rd"),
        ("Server=db;User Id=sa;Password=Sup3r!x;", "connection-string", "Sup3r!x"),
        ("jdbc:mysql://h/db?user=u&password=abc123xyz", "connection-string", "abc123xyz"),
        ("jdbc:oracle:thin:scott/t1ger@db:1521:x", "connection-string", "t1ger"),
        ("AccountName=x;AccountKey=" + drawn(86) + "==;", "azure-key", drawn(86) + "=="),
        (
            "https://hooks.slack.com/services/T0AB/B0CD/" + drawn(24),
            "slack-webhook",
            "/services/T0AB/B0CD/" + drawn(24),
        ),
        ("hash $2b$12$" + drawn(53), "password-hash", "$2b$12$" + drawn(53)),
    ],
)
def test_credentials_in_addresses_are_found_alone(text: str, kind: str, value: str) -> None:
    assert [(found.kind, text[found.start : found.end]) for found in find(text)] == [(kind, value)]


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2",
        "password: hunter2",
        'password = "hunter2"',
        "PASSWORD='hunter2'",
        "export DB_PASSWORD=hunter2",
        '{"password": "hunter2"}',
        '{"a": "{\\"password\\": \\"hunter2\\"}"}',
        "{'passwd': 'hunter2'}",
        "user=bob&pwd=hunter2&x=1",
        "<password>hunter2</password>",
        '<input name="password" value="hunter2">',
        '{"name": "DB_PASSWORD", "value": "hunter2"}',
        "mysql --password hunter2 -h db",
        "mysql --password=hunter2 -h db",
        "the password is hunter2.",
        "Passwort: hunter2",
        "mot de passe : hunter2",
        "contraseña: hunter2",
        "пароль: hunter2",
        "密码：hunter2",
        "パスワードは hunter2",
        'password: str = "hunter2"',
        "os.environ['PGPASSWORD'] = 'hunter2'",
        "login(user, password='hunter2')",
        "&quot;password&quot;:&quot;hunter2&quot;",
        "dbPassword => 'hunter2'",
        "machine x login y password:hunter2",
        'builder.setPassword("hunter2").build()',
        "| password | hunter2 |",
        "name,password\nbob,hunter2\n",
        "INSERT INTO users (id, password) VALUES (7, 'hunter2');",
        '{"name": "DB_PASSWORD", "type": "env", "value": "hunter2"}',
    ],
)
def test_the_value_beside_a_telling_name_is_found_alone(text: str) -> None:
    assert [(found.kind, text[found.start : found.end]) for found in find(text)] == [("secret", "hunter2")]


@pytest.mark.parametrize(
    "name", ["api_key", "apiKey", "API_KEY", "X-Api-Key", "client_secret", "clientSecret", "access_token", "authToken"]
)
@pytest.mark.parametrize("frame", ["{}: {}", '"{}": "{}"', "{}={}", "{} = '{}'"])
def test_names_tell_in_every_spelling(name: str, frame: str) -> None:
    value = drawn(32)
    text = frame.format(name, value)

    assert [text[found.start : found.end] for found in find(text)] == [value]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Use the API key a8f5f167f44f4964e6c998dee827110c to log in", "a8f5f167f44f4964e6c998dee827110c"),
        ("machine h login bob password hunter2x", "hunter2x"),
        ("curl -u bob:hunter2x https://example.com/", "hunter2x"),
        ("Set-Cookie: sid=a8f5f167; HttpOnly", "sid=a8f5f167; HttpOnly"),
        ("https://x.example/?X-Amz-Signature=" + hexed(64), hexed(64)),
        ("id;api_key\n1;a8f5f167f44f4964\n2;b8f5f167f44f4965\n", "a8f5f167f44f4964"),
    ],
)
def test_values_beside_names_in_rarer_forms(text: str, value: str) -> None:
    assert text[find(text)[0].start : find(text)[0].end] == value


def test_a_header_keeps_its_scheme() -> None:
    token = drawn(40)
    text = f"Authorization: Bearer {token}\nBasic {base64.b64encode(b'bob:hunter2').decode()}"

    assert [text[found.start : found.end] for found in find(text)] == [token, text.rpartition(" ")[2]]


@pytest.mark.parametrize("digits", [8, 9, 10, 12])
@pytest.mark.parametrize(
    "text",
    [
        "https://api.telegram.org/bot{}/sendMessage",
        "/bot{}/getUpdates",
        "bot{}",
        "TELEGRAM={}",
        '{{"url": "https://api.telegram.org/bot{}/getMe"}}',
        "https://api.telegram.org/file/bot{}/photos/file_1.jpg",
        "{}",
    ],
)
def test_the_token_of_a_telegram_bot_is_found_in_its_address(text: str, digits: int) -> None:
    token = f"{'7996027148123'[:digits]}:AA{drawn(33, ALPHABET + '-_')}"
    spelled = text.format(token)

    assert [(found.kind, spelled[found.start : found.end]) for found in find(spelled)] == [("telegram-token", token)]


PHRASE = "abandon ability able about above absent absorb abstract absurd abuse access accident"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("mysql -u root -pS3cr3tPw shop", "S3cr3tPw"),
        ("mysqldump --host db -p'S3cr3t Pw' shop > x.sql", "S3cr3t Pw"),
        ("sshpass -p S3cr3tPw ssh root@10.0.0.1", "S3cr3tPw"),
        ('sshpass -p "S3cr3tPw" scp a b', "S3cr3tPw"),
        ("$ redis-cli -h cache -a S3cr3tPw ping", "S3cr3tPw"),
        ("otpauth://totp/ACME:bob?secret=JBSWY3DPEHPK3PXP&issuer=ACME", "JBSWY3DPEHPK3PXP"),
        ("otpauth://hotp/ACME?issuer=ACME&secret=JBSWY3DPEHPK3PXPJBSWY3DPEHPK3PXP", "JBSWY3DPEHPK3PXP" * 2),
        ("2FA seed JBSW Y3DP EHPK 3PXP, as printed", "JBSW Y3DP EHPK 3PXP"),
        ("authenticator setup key: jbsw y3dp ehpk 3pxp", "jbsw y3dp ehpk 3pxp"),
        (f"My seed phrase: {PHRASE}", PHRASE),
        (f"the recovery phrase of the wallet is: {PHRASE} {PHRASE}.", f"{PHRASE} {PHRASE}"),
        (f'{{"note": "seed words: {PHRASE}"}}', PHRASE),
        (f"twilio: {hexed(32)}", hexed(32)),
        (f"Client('AC{hexed(32, 8)}', '{hexed(32)}')", hexed(32)),
        (f'client = Mistral("{drawn(32)}")', drawn(32)),
        (f"cohere.Client('{drawn(40)}')", drawn(40)),
        (f"mailgun {hexed(32)}-{hexed(8, 3)}-{hexed(8, 4)}", f"{hexed(32)}-{hexed(8, 3)}-{hexed(8, 4)}"),
        ("cfut_" + drawn(48), "cfut_" + drawn(48)),
        ("phc_" + drawn(43), "phc_" + drawn(43)),
    ],
)
def test_what_only_its_company_gives_away_is_found(text: str, value: str) -> None:
    assert [text[found.start : found.end] for found in find(text)] == [value]


@pytest.mark.parametrize(
    "text",
    [
        "mysql -u root -p shop",
        "mysql -u root -p$PASSWORD shop",
        "sshpass -p <password> ssh host",
        "mkdir -p build && mysql --version",
        "write down the seed phrase and keep it in a safe place where nobody can ever find it again",
        "the mnemonic helps people remember long lists without much work when they study for exams",
        f'{{"model": "mistral-large-2407", "id": "{hexed(32)}"}}',
        f"twilio request_id={hexed(32)} took 20 ms",
        "coherent results, and a coherence of " + hexed(40),
        "2FA is used when they sign with that code",
    ],
)
def test_company_alone_gives_nothing_away(text: str) -> None:
    assert find(text) == []
