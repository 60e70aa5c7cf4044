"""Laws: redacting twice is redacting once, nothing found stays in, JSON stays JSON, and nothing is ever raised."""

from __future__ import annotations

import base64
import json
import random
import re
import time
from string import ascii_letters, digits
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.matrix import examples, sampled

from replaykit.redaction import DEFAULT, Redactor, find
from replaykit.redaction.encoded import MAY_BEGIN_TEXT, begins_text
from replaykit.redaction.prefilter import is_plainly_clean
from replaykit.redaction.search import hits_in
from replaykit.redaction.text_view import _LEVELS, _NOT_SIMPLE, _unescape, _unescaped_once

REDACTOR = Redactor(b"a key for tests, thirty-two long")
SECRETS = [
    "jane.doe@example.com",
    "4111 1111 1111 1111",
    "DE89370400440532013000",
    "+49 30 12345678",
    "123-45-6789",
    "203.0.113.77",
    "sk-proj-" + "aB3dE5gH7jK9" * 4,
    "AKIAIOSFODNN7EXAMPLE",
    "glpat-aB3dE5gH7jK9mN1pQ3sT",
]
NAMED = ['password="hunter2-and-more"', '"api_key": "a8f5f167f44f4964e6c998de"', "token=a8f5f167f44f4964e6c998de&"]
ENCODED = [quote(SECRETS[0], safe=""), base64.b64encode(f"to {SECRETS[0]} or so".encode()).decode()]
GLUE = st.text(alphabet=" \n\t.,;:=\"'<>()[]{}\\/@%&+-_aZ09é密\u2011", max_size=12)
piece = st.one_of(st.sampled_from(SECRETS + NAMED + ENCODED), st.text(max_size=20), GLUE)
texts = st.lists(piece, max_size=8).map("".join)
names = st.one_of(
    st.sampled_from(["password", "apiKey", "pin", "note", "value", "name", "jane@example.com"]), st.text(max_size=6)
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(names, inner, max_size=4), inner.map(json.dumps)
    ),
    max_leaves=8,
)


@given(texts)
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = REDACTOR.text(text)

    assert REDACTOR.text(once) == once


@given(texts)
def test_findings_are_in_order_inside_of_the_text_and_apart(text: str) -> None:
    last = 0
    for found in find(text):
        assert last <= found.start < found.end <= len(text)
        last = found.end


@given(st.lists(st.sampled_from(SECRETS), min_size=1, max_size=4), st.sampled_from(["\n", ", ", " | ", '"\n"', "\\n"]))
def test_no_finding_stays_in_the_text(secrets: list[str], between: str) -> None:
    after = REDACTOR.text("so: " + between.join(secrets) + between)

    assert not [secret for secret in secrets if secret in after]


@given(values)
def test_values_keep_their_shape_and_redact_to_themselves(value: object) -> None:
    raw = json.dumps(value).encode()

    once = REDACTOR.raw(raw)

    json.loads(once)
    assert REDACTOR.raw(once) == once


@given(st.sampled_from(SECRETS), st.sampled_from(["{}", " {} ", "x {}, y", "({})", "a\n{}\nb"]), st.integers(0, 3))
def test_a_secret_is_found_however_often_it_is_wrapped_in_json(secret: str, frame: str, depth: int) -> None:
    value: object = {"text": frame.format(secret)}
    for _ in range(depth):
        value = {"inner": json.dumps(value)}

    assert secret not in json.dumps(REDACTOR.value(value))


@given(texts, st.lists(st.integers(0, 60), max_size=6))
def test_pieces_join_to_what_the_whole_becomes(text: str, cuts: list[int]) -> None:
    raw = text.encode("utf-8", "surrogatepass")
    places = sorted({min(cut, len(raw)) for cut in cuts})
    chunks = [raw[start:end] for start, end in zip([0, *places], [*places, len(raw)], strict=True)]

    after = REDACTOR.chunks(chunks)

    assert len(after) == len(chunks)
    assert b"".join(REDACTOR.chunks(after)) == b"".join(after)


@given(st.binary(max_size=200))
def test_any_bytes_are_taken(raw: bytes) -> None:
    REDACTOR.raw(raw)
    REDACTOR.chunks([raw, raw])
    REDACTOR.is_clean(raw)


@given(st.sampled_from(SECRETS))
def test_it_is_the_same_every_time(secret: str) -> None:
    again = Redactor(REDACTOR.key)

    assert again.text(f"x {secret} y") == REDACTOR.text(f"x {secret} y")


NASTY = [
    "@", "a@", "a@a.", "1", "1-", "1 ", "1.", "(1)", "+1", "password=", "password: ", '"password":', '"', "\\", '\\"',
    "%25", "%41", "eyJ", "eyJa.", "sk-", "sk-proj-", "ghp_", "AKIA", "SG.", "-----BEGIN PRIVATE KEY-----", "-----END ", "://",
    "://a:", "://a:b@", "<", "<password>", "{", '{"a":', "[[", "::", "1:", "ab:", "AA00", "DE89", "==", "Aa1", "token ",
    "secret is ", "--password ", "Bearer ", "$2a$", "a [at] b", "\ud800", "密码:", "密码是", "\x00", "password='\\",
    "password=my_a_", "<email:12345678>",
    "%3Cemail:12345678%3E", "YUBiLmNv", "MIIEIBAAK", ":thin:", "ssn: 1", "tel 1", "data: {}\n",
    '{"a":1}\n', "set-cookie: a=b;",
]  # fmt: skip


def spent(text: str) -> float:
    before = time.process_time()
    find(text)
    return time.process_time() - before


@sampled("unit", NASTY, count=21)
def test_no_repetition_takes_more_than_linear_time(unit: str) -> None:
    short = min(spent(unit * (4_000 // len(unit))) for _ in range(3))
    long = unit * (32_000 // len(unit))

    # Eight times the text: linear is 8 times the time, quadratic 64. The floor keeps noise out, and so do three tries.
    assert any(spent(long) < 30 * max(short, 0.01) for _ in range(3))


def test_nesting_of_any_depth_is_taken() -> None:
    deep = "[" * 50_000 + '"jane@example.com"' + "]" * 50_000
    layers = '"jane@example.com"'
    for _ in range(12):
        layers = json.dumps({"a": layers})

    assert "jane" not in REDACTOR.text(deep)
    assert "jane" not in REDACTOR.text(layers)
    assert REDACTOR.text('{"a": "' + "x" * 100_000)


@given(texts)
def test_what_a_quick_look_lets_pass_has_nothing_in_it(text: str) -> None:
    if is_plainly_clean(text.encode("utf-8", "surrogatepass")):
        assert hits_in(text, DEFAULT) == []


PIECES = [
    "input_tokens", "max_tokens", "access_token", "access_tokens", "token", "tokens", "key", "api_key", "monkey",
    "author", "auth", "password_policy", "db_password", "Passport", "author_token_b64", "x" * 45 + "_key", '"', "'",
    '":', '":"', '\\":\\"', "=", ": ", " ", " is ", "\\n", "\n", "\xa0", "：", ",", "|", "{", "[[", "(", "1200",
    "12345", "hunter2-Kormel", "q8Zr4TnW1xVb7YpLs0Kd", "gpt-4o-mini-2024-07-18", "claude-sonnet-4-20250514",
    "sk-proj-Zr4TnW1xVb7YpLs0KdQ8", "ghp_", "0123456789abcdef0123", "-us12", ".", "~", "$",
    "1794825703.4238348", "908919623.5", "runs/20261116-104127-case", "tel ", "SG.", ":",
    "1702339559", "+", "fax", "msg_8a38839668a2", "iban ", "tosiban if ", "de89370400440532013000", "AB12", " keyboard",
    " spinning", "api ", "mot de ", "driver's ", "license", "pin ", "x, key", "4111111111111111",
    "contraseña", "12:03:07.601508+00:00", "https://x.example/?", "&X-Amz-Signature=", "sig=",
    "INSERT INTO t (cpf) VALUES (", ")",
    "aHVudGVyMkBleGFtcGxlLmNvbQ", "w6R1ZGlrQGJlaXNwaWVsLmRl", "kJ7vQ2mZx9LpR4tYw8Bn", "x.1.2.3.4",
    "10.1.2.3", "bearer", "cookie", "<email:12345678>",
    "site-packages/the/result", "3.11", "self._format_syntax_error(", "hvs.", "Q~", ":AA", "1234567890:AAE",
    ".atlasv1.", "MTk4NjIyNDgzNDcxOTI1MjQ4", "Cl2FMQ", "127.0.0.1", "192.168.1.4", "192.1.1.1", "110.0.0.1",
    " 10.0.0.3", "files/", "6a616e652e646f6540636f72702d6d61696c2e636f6d", "12345678", "36.99", "2026-08-14", "phone",
    "order", "\\t", '\\"', "\n@", " @", "@", "classmethod", "example.com", "–", "/",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=9))
@settings(max_examples=examples(1000))
def test_names_beside_values_pass_a_quick_look_only_where_they_tell_nothing(pieces: list[str]) -> None:
    text = "".join(pieces)

    assert not is_plainly_clean(text.encode()) or hits_in(text, DEFAULT) == []


@given(st.lists(st.sampled_from(PIECES), max_size=9), st.integers(1, 3))
@settings(max_examples=examples(1000))
@pytest.mark.exhaustive
def test_a_quick_look_at_json_lets_nothing_pass_in_its_strings(pieces: list[str], levels: int) -> None:
    text = "".join(pieces)
    for _ in range(levels):
        text = json.dumps({"content": text}, ensure_ascii=False)

    if is_plainly_clean(text.encode()):
        assert REDACTOR.text_edits.json_edits(text, hits_in(text, DEFAULT), {}) == []


def test_a_quick_look_sees_text_in_hexadecimal_digits_below_a_path() -> None:
    digits = b"jane.doe@example.com".hex()

    assert not is_plainly_clean(f"see files/{digits} there".encode())
    assert digits not in REDACTOR.text(f"see files/{digits} there")


@given(st.lists(st.lists(st.sampled_from(PIECES), max_size=5).map("".join), max_size=4))
@settings(max_examples=examples(500))
def test_one_quick_look_at_several_texts_lets_pass_no_more_than_one_at_each(texts: list[str]) -> None:
    if is_plainly_clean("\n".join(texts).encode()):
        assert [hits_in(text, DEFAULT) for text in texts if hits_in(text, DEFAULT)] == []


@given(st.text(min_size=4, max_size=30), st.booleans(), st.integers(0, 3))
@settings(max_examples=examples(1000))
def test_every_text_in_base64_begins_as_the_pattern_for_it_says(text: str, url_safe: bool, cut: int) -> None:
    data = text.encode("utf-8", "replace")
    encoded = (base64.urlsafe_b64encode if url_safe else base64.b64encode)(data)[: -cut or None]

    if begins_text(encoded, 0):
        assert re.match(MAY_BEGIN_TEXT.encode(), encoded)


def test_ids_hardly_ever_look_like_text_in_base64() -> None:
    draw = random.Random(7)
    ids = ["".join(draw.choices(ascii_letters + digits, k=20)) for _ in range(1000)]

    assert sum(bool(re.match(MAY_BEGIN_TEXT, text)) for text in ids) < 50


IDS = [
    "kJ7vQ2mZx9LpR4tYw8Bn", "0123456789abcdef01234567", "8f14e45f-ceea-467f-a830-2c5e9d1b7a11",
    "fc-abcdefabcdefabcdefabcdefabcdefab", "SKabcdefabcdefabcdefabcdefabcdefab", "AKIAIOSFODNN7EXAMPLE",
    "aHVudGVyMkBleGFtcGxlLmNvbQ", "w6R1ZGlrQGJlaXNwaWVsLmRl", "sk-proj-Zr4TnW1xVb7YpLs0KdQ8", "x" * 45,
    "q8Zr4TnW1xVb7YpLs0Kdq8Zr4TnW1xVb7YpLs0Kd", "gpt-4o-mini-2024-07-18",
]  # fmt: skip


@given(
    st.lists(st.tuples(st.sampled_from(IDS), st.sampled_from(['"{}"', '"{}', '{}"', "{}", '"{}.', '.{}"'])), max_size=5)
)
@settings(max_examples=examples(1000))
def test_ids_pass_a_quick_look_only_where_no_token_is_among_them(pieces: list[tuple[str, str]]) -> None:
    text = ",".join(form.format(word) for word, form in pieces)

    assert not is_plainly_clean(text.encode()) or hits_in(text, DEFAULT) == []


HEX_IDS = [
    "4304612e9b04acb1", "4111111111111111", "411111111111111a", "00491761234567c9", "676770000006",
    "1234567a-1234-4123-8123-123456789abc", "12345678-1234-4123-8123-12345678912a",
    "1234567a-1234-4123-8123-676770000006", "run-0049176a-1234-4567-8912-34567890123f",
    "a4111-1111-1111-1111", "37522139400fce7837522139400fce78", "00723078-7537-7649-6487-5869303131b9",
]  # fmt: skip


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["id", "tel", "call me at", "card", "passport", "order", "imei"]),
            st.sampled_from(HEX_IDS),
            st.sampled_from(
                ['"{}":"{}"', '"{}": "{}', '"{}{}"', '\\"{}\\":\\"{}\\"', '{}: "+{}"', '{}: "{}, 1234567"']
            ),
        ),
        max_size=3,
    )
)
@settings(max_examples=examples(500))
def test_hexadecimal_ids_pass_a_quick_look_only_where_no_number_is_in_them(parts: list[tuple[str, str, str]]) -> None:
    text = ",".join(form.format(name, word) for name, word, form in parts)

    assert not is_plainly_clean(text.encode()) or hits_in(text, DEFAULT) == []


def test_one_key_among_ids_is_seen_wherever_it_stands() -> None:
    ids = ["kJ7vQ2mZx9LpR4tYw8Bn", "8f14e45f-ceea-467f-a830-2c5e9d1b7a11", "zX9LpR4tYw8BnkJ7vQ2m"]
    for place in range(len(ids) + 1):
        for key in ("AKIAIOSFODNN7EXAMPLE", "fc-abcdefabcdefabcdefabcdefabcdefab"):
            assert not is_plainly_clean(json.dumps([*ids[:place], key, *ids[place:]]).encode())
    assert is_plainly_clean(json.dumps(ids).encode())


@pytest.mark.parametrize(
    "secret", [*SECRETS, *NAMED, *ENCODED, "пароль: мойпароль", "jane [at] example.com", "2001:db8:1:2:3:4:5:6"]
)
def test_a_quick_look_lets_no_secret_pass(secret: str) -> None:
    for text in (secret, f"see {secret}, please", json.dumps({"a": [secret]}), secret.upper()):
        assert hits_in(text, DEFAULT) == [] or not is_plainly_clean(text.encode())
    assert not is_plainly_clean(secret.encode())


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "8f14e45f-ceea-467f-a830-2c5e9d1b7a11", "created": "2026-11-16T05:27:23Z", "total": 129.5}',
        "The customer asked whether the refund would arrive before the end of the month.",
        '{"model": "gpt-4o-mini-2024-07-18", "max_tokens": 1000, "usage": {"input_tokens": 1200, "output_tokens": 80}}',
        "https://example.com/orders/list?page=2 gave 200",
        '{"started_at": 1794825703.4238348, "evidence": ".replaykit/runs/20261116-104127-case-0001"}',
        '{"id": "msg_b7fce4b114a5b33c163948ea", "created": 1702339559, "usage": {"prompt_tokens": 8769}}',
        "for index in sorted(found, key=lambda item: (item.kind, index)): # spinning 123 keyboards of tosiban.",
        "Ein Gespräch über Rückgaben, naïve façade, 日本語のテキスト",
        '  File "/usr/lib/python3.11/site-packages/httpx/_client.py", line 914, in send',
        "class Reader:\n    @property\n    def size(self) -> int:\n        return self.first_of_many_long_names(0)",
        "listening on 127.0.0.1:8080 and 0.0.0.0:80, workers at 10.0.0.3",
        '{"spanId": "4304612e9b04acb1", "traceId": "37522139400fce7837522139400fce78", "start": "2026-11-16"}',
        '{"run_id": "run--8045572a-4123-4046-8123-9234567a1234", "id": "1234567a-1234-4123-8123-1234567890ab"}',
        json.dumps({"content": json.dumps({"price": 36.99, "date": "2026-08-14", "order": 12345678})}),
    ],
)
def test_usual_texts_need_no_closer_look(text: str) -> None:
    assert is_plainly_clean(text.encode())


@given(st.lists(st.sampled_from(["\\n", "\\t", "\\r", '\\"', '"', "\\u0041", "\\/", "a", " ", ",", "\n"]), max_size=12))
@settings(max_examples=examples(1000))
def test_simple_escapes_are_taken_back_as_the_pattern_for_them_says(pieces: list[str]) -> None:
    flat = "".join(pieces).encode()

    if not any(sign in flat for sign in _NOT_SIMPLE):
        assert _unescaped_once(flat) == _LEVELS[1].sub(_unescape, flat)
