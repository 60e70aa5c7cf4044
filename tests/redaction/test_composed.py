"""Composed values: a secret inside of another one leaves nothing of either."""

from __future__ import annotations

import json
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.matrix import matrix
from tests.redaction.made_up_secrets import drawn, hexed, jwt, with_crc

from replaykit.redaction import Redactor

REDACTOR = Redactor(b"a key for tests, thirty-two long")
OUTER = ("Zk81mQ4pLw9x", "tR2vB7nHc3Ys")
"""What stands before and behind the inner secret: both belong to the outer one."""
INNER = {
    "jwt": jwt(),
    "stripe": "sk_live_" + drawn(24),
    "github": with_crc("ghp_"),
    "openai": "sk-proj-" + drawn(40),
    "aws": "AKIAIOSFODNN7EXAMPLE",
    "email": "jane.doe@example.com",
    "card": "4111111111111111",
    "iban": "DE89370400440532013000",
    "ssn": "123-45-6789",
    "phone": "+49-30-12345678",
    "ip": "203.0.113.77",
    "digest": hexed(32),
}
CARRIERS = {
    "cookie": "GET / HTTP/1.1\r\nCookie: theme=dark; sessionid={}\r\nAccept: */*\r\n\r\n",
    "set-cookie": "Set-Cookie: sid={}; Path=/; HttpOnly",
    "digest": 'Authorization: Digest username="bob", realm="r", nonce="{}", qop=auth',
    "bearer": "Authorization: Bearer {}",
    "quoted": 'export SECRET="{}"',
    "password": 'db.connect(password="{}")',
    "env": "DB_PASSWORD={}\nMODE=fast\n",
    "json": '{{"client_secret": "{}", "mode": "fast"}}',
    "yaml": "service:\n  password: {}\n  replicas: 2\n",
    "xml": "<job><password>{}</password></job>",
    "query": "https://x.example/cb?page=2&access_token={}&n=3",
    "database": "postgres://app:{}@db.internal:5432/app",
    "header": "X-Api-Key: {}",
    "sql": "INSERT INTO users (id, password) VALUES (12, '{}');",
    "csv": "id,password\n12,{}\n",
    "option": "$ tool login --password '{}' --retries 3",
}


def left_of(text: str, *secrets: str) -> list[str]:
    """The secrets that are still in the redacted text."""
    after = REDACTOR.text(text)
    return [secret for secret in secrets if secret in after]


def wrapped(text: str) -> tuple[str, str, str]:
    """The text itself, as a string of JSON, and as one of JSON in JSON."""
    return text, json.dumps({"body": text}), json.dumps({"a": json.dumps({"b": text})})


@matrix(carrier=CARRIERS, joint=["-", "."])
def test_a_recognized_value_inside_of_a_secret_leaves_nothing_of_either(carrier: str, joint: str) -> None:
    for inner in INNER.values():
        value = joint.join((OUTER[0], inner, OUTER[1]))

        for text in wrapped(CARRIERS[carrier].format(value)):
            assert left_of(text, inner, *OUTER) == []


@given(st.sampled_from(sorted(CARRIERS)), st.lists(st.sampled_from(sorted(INNER)), min_size=1, max_size=3), st.data())
def test_nothing_of_nested_secrets_stays_readable(carrier: str, inner: list[str], data: st.DataObject) -> None:
    joints = data.draw(st.lists(st.sampled_from("-._~"), min_size=len(inner) + 1, max_size=len(inner) + 1))
    value = OUTER[0] + "".join(joint + INNER[name] for joint, name in zip(joints, inner, strict=False))
    text = CARRIERS[carrier].format(value + joints[-1] + OUTER[1])

    for spelled in wrapped(text):
        assert left_of(spelled, *OUTER, *(INNER[name] for name in inner)) == []


@pytest.mark.parametrize(
    "text",
    [
        "Cookie: sessionid={0}; access={1}",
        "Cookie: access={1}; sessionid={0}",
        'Cookie: access="{1}"; sessionid={0}',
        'Set-Cookie: sid="{0}.{1}"; Path=/',
        'Authorization: Digest username="bob", response="{0}", opaque="{1}"',
        'SECRET="{0} {1} {2}"',
        '{{"secret": "{0} {1} {2}"}}',
        '{{"token": "{0} {1}"}}',
        '{{"headers": {{"Authorization": "Digest username=\\"bob\\", response=\\"{0}\\", opaque=\\"{1}\\""}}}}',
        '{{"headers": [["cookie", "sessionid={0}; access={1}"]]}}',
        "postgres://u:{0}-{1}@db",
        "https://bob:{0}.{1}@git.example.com/x.git",
        "curl -u bob:{0}-{1} https://x.example",
    ],
)
def test_a_token_in_a_larger_secret_does_not_unmask_the_rest(text: str) -> None:
    for token in (INNER["jwt"], INNER["stripe"], INNER["github"]):
        assert left_of(text.format(OUTER[0], token, OUTER[1]), token, *OUTER) == []


def test_a_placeholder_inside_of_a_secret_does_not_hide_the_rest() -> None:
    inner = REDACTOR.text(INNER["jwt"])
    stripe = REDACTOR.text(INNER["stripe"])

    for carrier, held in product(CARRIERS.values(), (inner, stripe)):
        assert left_of(carrier.format(f"{OUTER[0]}-{held}"), *OUTER) == []


def test_what_is_redacted_pair_by_pair_is_left_alone() -> None:
    cookie = REDACTOR.header("cookie", f"sessionid={OUTER[0]}; access={INNER['jwt']}")
    assert OUTER[0] not in cookie

    for text in (f"Cookie: {cookie}", json.dumps({"cookie": cookie}), json.dumps([["cookie", cookie]])):
        assert REDACTOR.is_clean(text)


def test_a_token_beside_a_name_is_the_same_as_anywhere_else() -> None:
    token = INNER["github"]
    alone = REDACTOR.text(token)

    for carrier in CARRIERS.values():
        text = REDACTOR.text(carrier.format(token))
        assert alone in text or token not in text
    assert alone in REDACTOR.text(f'token: "{token}"')
    assert alone in REDACTOR.text(f"Authorization: token {token}.")


@pytest.mark.parametrize("between", ["\\n", "\\t", "\\r\\n", "\n", ", "])
def test_numbers_on_two_lines_are_two_numbers(between: str) -> None:
    numbers = ["+49 30 12345678", "123-45-6789", "4111 1111 1111 1111"]

    for first, second in product(numbers, numbers):
        assert left_of(f"so: {first}{between}{second}{between}", first, second) == []
