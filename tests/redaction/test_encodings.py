"""Encodings: what is secret in plain text is secret in a form, in hexadecimal digits and in compressed base64."""

from __future__ import annotations

import base64
import gzip
import json
import re
import time
import zlib
from collections.abc import Callable
from urllib.parse import parse_qs, quote, unquote_plus, urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.redaction import Redactor, find
from replaykit.redaction.prefilter import is_plainly_clean

REDACTOR = Redactor(b"a key for tests, thirty-two long")
NESTED = json.dumps({"password": "hunter2-Zq9!"})
TEXTS = {
    "hunter2-Zq9!": NESTED,
    "hunter2-Zq9?": "the password is hunter2-Zq9?, and has been",
    "jane.doe@example.com": "mail jane.doe@example.com today",
    "4111 1111 1111 1111": "card 4111 1111 1111 1111, please",
    "+49 30 12345678": "call +49 30 12345678 now",
    "DE89 3704 0044 0532 0130 00": "IBAN DE89 3704 0044 0532 0130 00",
    "123 45 6789": "SSN 123 45 6789",
    "X1234567": "passport number X1234567",
    "a8f5f167f44f4964e6c998de": "API key: a8f5f167f44f4964e6c998de",
    "sk-proj-aB3dE5gH7jK9aB3dE5gH7jK9": "key sk-proj-aB3dE5gH7jK9aB3dE5gH7jK9 is old",
    "Zk81mQ4pLw9x": "Cookie: a=b; sessionid=Zk81mQ4pLw9x",
}


def compressed(text: str) -> str:
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@pytest.mark.parametrize("secret", TEXTS)
def test_a_form_is_decoded(secret: str) -> None:
    for body in (urlencode({"payload": TEXTS[secret], "n": "3"}), "a=1&b=" + quote(TEXTS[secret]).replace("%20", "+")):
        for text in (body, f"POST /x HTTP/1.1\r\n\r\n{body}", f"https://x.example/?{body}", json.dumps({"body": body})):
            after = REDACTOR.text(text)

            assert secret not in unquote_plus(after)
            assert REDACTOR.text(after) == after


def test_a_form_stays_one() -> None:
    after = REDACTOR.text(urlencode({"payload": NESTED, "note": "two words"}))

    fields = parse_qs(after)
    assert json.loads(fields["payload"][0]) == REDACTOR.value(json.loads(NESTED))
    assert fields["note"] == ["two words"]


def test_a_value_in_a_form_has_the_same_placeholder() -> None:
    plain = REDACTOR.text("card 4111 1111 1111 1111, please").split("card ")[1].split(",")[0]

    assert plain in unquote_plus(REDACTOR.text("q=" + "card 4111 1111 1111 1111, please".replace(" ", "+")))


@pytest.mark.parametrize("secret", TEXTS)
@pytest.mark.parametrize("form", ["{}", '{{"blob": "{}"}}', "blob: {}\n", "0x{}", "https://x.example/{}", "x='{}'"])
def test_hexadecimal_digits_are_decoded(secret: str, form: str) -> None:
    for digits in (TEXTS[secret].encode().hex(), TEXTS[secret].encode().hex().upper()):
        after = REDACTOR.text(form.format(digits))

        assert digits not in after
        assert secret.encode().hex() not in after.lower()
        assert REDACTOR.text(after) == after


def test_redacted_hexadecimal_digits_are_some_again() -> None:
    after = REDACTOR.text("blob " + NESTED.encode().hex())

    assert json.loads(bytes.fromhex(after.split()[1])) == REDACTOR.value(json.loads(NESTED))


@pytest.mark.parametrize("secret", TEXTS)
@pytest.mark.parametrize("form", ["{}", '{{"blob": "{}"}}', "blob: {}\n", "data:application/gzip;base64,{}"])
def test_compressed_text_in_base64_is_decoded(secret: str, form: str) -> None:
    raw = TEXTS[secret].encode()
    for blob in (compressed(TEXTS[secret]), base64.urlsafe_b64encode(zlib.compress(raw)).decode()):
        after = REDACTOR.text(form.format(blob))

        assert blob not in after
        assert REDACTOR.text(after) == after


def test_redacted_compressed_text_is_some_again() -> None:
    after = REDACTOR.text("blob " + compressed(NESTED))

    data = gzip.decompress(base64.b64decode(after.split()[1]))
    assert json.loads(data) == REDACTOR.value(json.loads(NESTED))


def test_a_bomb_is_not_unpacked() -> None:
    bomb = base64.b64encode(gzip.compress(b"mail jane.doe@example.com " + b"a" * 50_000_000)).decode()
    before = time.process_time()

    after = REDACTOR.text(f"x {bomb} y")

    assert re.fullmatch("x <email:[0-9a-f]{8}> y", after)
    assert time.process_time() - before < 2


Encode = Callable[[str], str]
ENCODINGS: list[Encode] = [
    lambda text: text.encode().hex(),
    compressed,
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: urlencode({"a": text}),
    lambda text: quote(text, safe=""),
    json.dumps,
]


@given(st.sampled_from(sorted(TEXTS)), st.lists(st.sampled_from(ENCODINGS), min_size=1, max_size=2))
def test_what_a_quick_look_lets_pass_has_nothing_encoded_in_it(secret: str, encodings: list[Encode]) -> None:
    text = TEXTS[secret]
    for encode in encodings:
        text = encode(text)

    for framed in (text, json.dumps({"a": text}), f"see {text}, please"):
        assert not is_plainly_clean(framed.encode())
        assert not REDACTOR.is_clean(framed)


@pytest.mark.parametrize(
    "text",
    [
        "d41d8cd98f00b204e9800998ecf8427e and 5f3c6a2b7d4e5f6a7b3c4d5e6f7a2b3c",
        '{"sha": "da39a3ee5e6b4b0d3255bfef95601890afd80709", "n": "22334455667722334455"}',
        b"hello world of text in hex ".hex(),
        compressed("nothing to find in here, and nothing to hide"),
        "q=two+words+and+more&n=3 a+b=c",
        "H4sIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA eJwAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    ],
)
def test_what_is_decoded_to_nothing_is_left_alone(text: str) -> None:
    assert find(text) == []
