"""Long texts: a search of what a quick look cannot let pass finds what a search of all of it does."""

from __future__ import annotations

import random

from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.matrix import examples
from tests.redaction.made_up_secrets import drawn, pem

from replaykit.redaction import DEFAULT
from replaykit.redaction.finding import Hit
from replaykit.redaction.search import LEAST_CHARS, hits_in, long_hits
from replaykit.redaction.text_view import View

PLAIN = ["the order is late and so on. ", "page 3 of 7\n", '{"row": 12, "name": "lamp"}, ', "def run(self) -> None:\n"]
SECRETS = [
    "jane.doe@example.com", "4111 1111 1111 1111", "+49 30 12345678", "sk-proj-" + "aB3dE5gH7jK9" * 4, pem(lines=40),
    "password: zXc7-vBn9-Qwe4", "user,password\n" + "ann,Zx8kk29\n" * 900, "-----BEGIN RSA PRIVATE KEY-----\n! ! !\n",
    "-----END RSA PRIVATE KEY-----", "we use mistral " + drawn(32, seed=5), "AKIAIOSFODNN7EXAMPLE", drawn(40, seed=3),
    "x" * 9000, drawn(6000),
    "<password>" + "a b" * 900 + "</password>", "4111+1111+1111+1111", "a=b", "ssn 123 45 6789",
]  # fmt: skip
plain = st.builds(lambda words, count: words * count, st.sampled_from(PLAIN), st.integers(0, 400))
texts = st.lists(st.tuples(plain, st.sampled_from(SECRETS)), max_size=4)


def whole(text: str) -> list[Hit]:
    assert len(text) < LEAST_CHARS
    return hits_in(text, DEFAULT)


@settings(max_examples=examples(40), deadline=None)
@given(parts=texts, ending=plain)
def test_as_much_is_found_as_in_a_search_of_all_of_it(parts: list[tuple[str, str]], ending: str) -> None:
    text = "".join(words + secret for words, secret in parts) + ending
    assume(len(text) < LEAST_CHARS)
    traits = View(text).traits

    assert long_hits(text, lambda part: hits_in(part, DEFAULT, around=traits), step=1024) == whole(text)


def test_secrets_in_a_long_text_are_found_in_their_places() -> None:
    chance = random.Random(4)
    text = "".join(chance.choice(PLAIN) for _ in range(20_000))
    places = sorted(chance.sample(range(0, len(text), 1000), 20))
    for number, place in enumerate(reversed(places)):
        text = f"{text[:place]} user{number}@example.com {text[place:]}"

    found = [text[hit.start : hit.end] for hit in hits_in(text, DEFAULT)]

    assert len(text) > LEAST_CHARS
    assert found == [f"user{number}@example.com" for number in reversed(range(20))]
