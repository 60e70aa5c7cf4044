"""Secrets and personal data: what is one, what only looks like one, and that none is ever shown."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.checks.assertions import parse_assertion
from replaykit.checks.safety import PII, SECRETS, detect, iban, luhn
from replaykit.model.events import LlmCall, Message, ToolCall
from replaykit.model.result import Finding, Side
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, canonical, raw

# Put together here, so that no scanner takes this file for a leak.
TOKENS = {
    "aws_access_key": "AKIA" + "IOSFODNN7ABCDEFG",
    "anthropic_key": "sk-ant-" + "api03-" + "aB3dE5fG7h" * 3,
    "openai_key": "sk-" + "proj-" + "aB3dE5fG7h" * 3,
    "github_token": "ghp_" + "aB3dE5fG7h" * 3 + "aB3dE5",
    "gitlab_token": "glpat-" + "aB3dE5fG7haB3dE5fG7h",
    "google_api_key": "AIza" + "aB3dE5fG7h" * 3 + "aB3dE",
    "slack_token": "xoxb-" + "123456789012-abcdefabcdef",
    "stripe_key": "sk_live_" + "aB3dE5fG7haB3dE5",
    "huggingface_token": "hf_" + "aB3dE5fG7h" * 3,
    "npm_token": "npm_" + "aB3dE5fG7h" * 3 + "aB3dE5",
    "jwt": "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".c2lnbmF0dXJlMTIz",
    "private_key": "-----BEGIN RSA " + "PRIVATE KEY-----",
}
IN_CONTEXT = {
    "url_password": ("postgres://bo:", "s3cr3tpw", "@db.test/x"),
    "bearer_token": ("Authorization: Bearer ", "aB3dE5fG7haB3dE5", ""),
    "assigned_secret": ('"api_key": "', "zX9-kk42-Qp17", '"'),
}
PERSONAL = [
    ("email", "ana.b+x@mail.example.org"),
    ("card", "4111 1111 1111 1111"),
    ("card", "5500-0055-5555-5559"),
    ("card", "378282246310005"),
    ("iban", "DE89 3704 0044 0532 0130 00"),
    ("iban", "GB82WEST12345698765432"),
    ("ssn", "536-22-8726"),
    ("phone", "+49 30 1234 5678"),
    ("phone", "+14155552671"),
    ("phone", "(415) 555-2671"),
    ("phone", "415-555-2671"),
    ("ip", "192.168.7.24"),
]
HARMLESS = [
    "order 123456789",
    "4111 1111 1111 1112",
    "0000 0000 0000 0000",
    "tracking 1234567890123456",
    "000-22-8726",
    "666-22-8726",
    "900-22-8726",
    "536-00-8726",
    "536-22-0000",
    "DE89 3704 0044 0532 0130 01",
    "on 2024-03-12 at 14:32",
    "version 1.2.3",
    "part 12-345-6789-0",
    "a@b",
    "999.1.1.1",
    "invoice 2024-000-123-4567",
    "3.14159265358979",
]


@pytest.mark.parametrize(("kind", "token"), TOKENS.items())
def test_a_secret_is_known_by_its_form(kind, token):
    (found,) = detect(f"use {token} for it", SECRETS)

    assert (found.kind, found.start, found.end) == (kind, 4, 4 + len(token))


@pytest.mark.parametrize(("kind", "parts"), IN_CONTEXT.items())
def test_a_secret_is_known_by_what_is_around_it(kind, parts):
    (found,) = detect("".join(parts), SECRETS)

    assert found.kind == kind
    assert "".join(parts)[found.start : found.end].startswith(parts[1])


@pytest.mark.parametrize(
    "text",
    [
        "the password is required",
        "password: changeme",
        "api_key=<your key here>",
        "Bearer of good news everyone",
        "AKIA is a prefix",
        "sk-short",
        "eyJub3QiOiJhIGp3dCJ9.eyJhIjoxfQabc.c2lnbmF0dXJl",
        "https://user@host.test/path",
        "task-force-one-two-three-four-five-six",
    ],
)
def test_what_is_no_secret_is_left_alone(text):
    assert detect(text, SECRETS) == []


@pytest.mark.parametrize(("kind", "text"), PERSONAL)
def test_personal_data_is_found_whole(kind, text):
    (found,) = detect(f"it is {text}, I think", PII)

    assert (found.kind, found.start, found.end) == (kind, 6, 6 + len(text))


@pytest.mark.parametrize("text", HARMLESS)
def test_what_only_looks_like_personal_data_is_left_alone(text):
    assert detect(text, PII) == []


@pytest.mark.parametrize("text", ["SSN: 536228726", "her social security number is 536228726"])
def test_nine_digits_are_an_ssn_only_after_the_words(text):
    (found,) = detect(text, PII)

    assert (found.kind, text[found.start : found.end]) == ("ssn", "536228726")
    assert detect("SSN: 000228726", PII) == []


@given(st.text("0123456789", min_size=12, max_size=18))
def test_luhn_accepts_one_last_digit_and_sees_every_single_slip(digits):
    good = [digit for digit in "0123456789" if luhn(digits + digit)]
    slipped = str((int(digits[0]) + 1) % 10) + digits[1:]

    assert len(good) == 1
    assert not luhn(slipped + good[0])


@given(st.text("0123456789ABCXYZ", min_size=11, max_size=20))
def test_an_iban_has_its_own_check_digits(account):
    good = [digits for digits in map("{:02}".format, range(2, 99)) if iban(f"DE{digits}{account}")]

    assert len(good) == 1


@given(st.text(max_size=200))
def test_what_is_found_does_not_overlap_and_is_in_order(text):
    found = detect(text + " 4111111111111111 a@b.cd", [*SECRETS, *PII])

    assert all(one.end <= other.start for one, other in itertools.pairwise(found))


RUN = TraceRun(
    id="r",
    output_json=raw(f"Mail ana@corp.test, card 4111111111111111, key {TOKENS['aws_access_key']}"),
    events=(
        Message(seq=0, role="user", content_json=raw("I am bo@home.test")),
        ToolCall(
            seq=1,
            name="send",
            arguments_json=Raw(canonical({"to": "ana@corp.test", "auth": TOKENS["stripe_key"]})),
            result_json=raw({"trace": TOKENS["npm_token"], "peer": "10.0.0.1"}),
        ),
        LlmCall(seq=2, name="m", result_json=raw({"text": "call +14155552671"})),
    ),
)


def found(kind: str, value: Any) -> Finding:
    return parse_assertion(kind, value).check(RUN, Side.DESIRED)


@pytest.mark.parametrize(
    ("kind", "value", "sorts"),
    [
        ("safety.no_secret", {}, ["aws_access_key in the output", "stripe_key in arguments of send"]),
        ("safety.no_secret", ["results"], ["npm_token in result of send"]),
        ("safety.no_secret", {"in": ["output"], "kinds": ["jwt"]}, []),
        ("safety.no_secret", {"in": ["output"], "allow": ["AKIA*"]}, []),
        ("safety.no_pii", ["output"], ["email in the output", "card in the output"]),
        ("safety.no_pii", {"in": ["output", "arguments"], "allow": ["*@corp.test"]}, ["card in the output"]),
        ("safety.no_pii", ["messages", "models"], ["email in message of user", "phone in answer of m"]),
        ("safety.no_pii", ["results"], []),
        ("safety.no_pii", {"in": ["results"], "kinds": ["ip"]}, ["ip in result of send"]),
    ],
)
def test_a_finding_names_the_sort_and_the_place(kind, value, sorts):
    finding = found(kind, value)

    told = [part.partition(",")[0] for part in finding.actual.split("; ")] if not finding.holds else []
    assert told == sorts


@pytest.mark.parametrize("kind", ["safety.no_secret", "safety.no_pii"])
def test_a_finding_never_shows_what_it_found(kind):
    everywhere = ["output", "arguments", "results", "messages", "models"]
    finding = found(kind, everywhere)

    assert not finding.holds
    for secret in (*TOKENS.values(), "ana@corp.test", "bo@home.test", "4111111111111111", "+14155552671"):
        assert secret not in repr(finding)


def test_the_event_with_the_first_finding_is_pointed_at():
    assert found("safety.no_secret", ["results"]).seq == 1
    assert found("safety.no_pii", ["models"]).seq == 2
