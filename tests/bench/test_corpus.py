"""The redaction corpus: the same everywhere, large enough, divided cleanly, and its labels say what is there."""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from bench.redaction import corpus, kinds, places, texts
from bench.redaction.corpus import HALVES, HELD_OUT, TUNING, Sample, half
from bench.redaction.marked import OPINION, Marked, Span, plain, sensitive
from hypothesis import given
from hypothesis import strategies as st

from replaykit.redaction.prefilter import is_plainly_clean
from replaykit.redaction.rules import DEFAULT
from replaykit.redaction.search import hits_in

ROOT = Path(__file__).parents[2]
SAMPLES = corpus.corpus()
DIGEST = """
import hashlib
from bench.redaction.corpus import corpus
print(hashlib.sha256(repr(corpus()).encode()).hexdigest())
"""


def sure(sample: Sample) -> list[Span]:
    return [span for span in sample.spans if span.kind != OPINION]


def marked_text(sample: Sample, span: Span) -> str:
    return sample.text[span.start : span.end]


def test_another_process_makes_the_same_corpus() -> None:
    env = {**os.environ, "PYTHONHASHSEED": "7", "PYTHONPATH": str(ROOT)}

    done = subprocess.run(
        [sys.executable, "-c", DIGEST], env=env, capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout.strip() == hashlib.sha256(repr(SAMPLES).encode()).hexdigest()


def test_there_are_two_thousand_strings_and_a_third_of_them_is_harmless() -> None:
    harmless = [sample for sample in SAMPLES if not sample.spans]

    assert len({sample.text for sample in SAMPLES}) >= 2000
    assert len(harmless) >= len(SAMPLES) / 3


def test_no_string_occurs_twice() -> None:
    counted = {text: len(list(same)) for text, same in itertools.groupby(sorted(sample.text for sample in SAMPLES))}

    assert [text for text, count in counted.items() if count > 1] == []


def test_no_template_is_in_both_halves() -> None:
    tuning, held_out = ({sample.template for sample in half(name)} for name in HALVES)

    assert tuning
    assert held_out
    assert tuning & held_out == set()


def test_the_halves_are_about_equal_and_every_group_is_in_both() -> None:
    for name in HALVES:
        samples = half(name)
        groups = {kinds.group(span.kind) for sample in samples for span in sure(sample)}
        harmless = sum(not sample.spans for sample in samples)

        assert 0.45 <= len(samples) / len(SAMPLES) <= 0.55
        assert groups == {kinds.SECRETS, kinds.CHECKED, kinds.PERSONAL}
        assert harmless >= len(samples) / 3


def test_what_is_called_unseen_has_a_form_or_a_place_that_the_tuning_half_lacks() -> None:
    forms = {sample.form for sample in half(TUNING)}
    where = {sample.place for sample in half(TUNING)}
    unseen = [sample for sample in SAMPLES if sample.unseen]

    assert len(unseen) >= 200
    assert all(sample.half == HELD_OUT for sample in unseen)
    assert all(sample.form not in forms or sample.place not in where for sample in unseen)


def test_every_family_is_there_thirty_times_in_the_held_out_half() -> None:
    families = [kinds.family(span.kind) for sample in half(HELD_OUT) for span in sure(sample)]

    assert {family for family in kinds.FAMILIES if families.count(family) < 30} == set()


def test_spans_lie_in_their_text_one_after_the_other() -> None:
    for sample in SAMPLES:
        edges = [edge for span in sample.spans for edge in (span.start, span.end)]
        assert edges == sorted(edges)
        assert all(0 <= span.start < span.end <= len(sample.text) for span in sample.spans)


def test_positive_forms_have_something_to_find_and_harmless_ones_nothing() -> None:
    positive = {form.id for form in corpus.POSITIVE}

    for sample in SAMPLES:
        assert bool(sure(sample)) == (sample.form in positive)


SHAPES = {
    "anthropic": r"sk-ant-(api03|admin01)-[\w-]{93}AA",
    "aws-key-id": r"(AKIA|ASIA)[A-Z2-7]{16}",
    "aws-secret": r"[A-Za-z0-9+/]{40}",
    "azure-secret": r"[A-Za-z0-9+/]{86}==|[\w.~]{3}\dQ~[\w.~-]{34}",
    "basic-auth": r"[A-Za-z0-9+/]{20,}=*",
    "bearer": r"[\w-]{32,64}",
    "card": r"\d{4}[ -]?\d{4}[ -]?\d{4}[ -]?\d{4}|\d{4}[ -]?\d{6}[ -]?\d{5}",
    "connection": r"[\w.%-]{8,}",
    "databricks": r"dapi[0-9a-f]{32}",
    "digitalocean": r"dop_v1_[0-9a-f]{64}",
    "discord": r"[\w-]{24}\.[\w-]{6}\.[\w-]{38}|\w{68}",
    "docker": r"dckr_pat_[\w-]{27}",
    "document": r"[A-Z0-9]{9}",
    "email": r"(\"\w+ \w+\"|[\w.+-]+)@[\w-]+(\.[\w-]+)+",
    "gcp-key": r"AIza[\w-]{35}|GOCSPX-[\w-]{28}",
    "github": r"gh[pos]_\w{36}|github_pat_\w{22}_\w{59}",
    "gitlab": r"gl(pat|rt)-[\w-]{20}",
    "grafana": r"glsa_\w{32}_[0-9a-f]{8}",
    "groq": r"gsk_\w{52}",
    "huggingface": r"hf_[A-Za-z]{34}",
    "iban": r"[A-Z]{2}\d\d( ?[A-Z0-9]{1,4}){3,8}",
    "imei": r"\d{15}|\d\d-\d{6}-\d{6}-\d",
    "ip": r"[\d.]{7,15}|[0-9a-f:]{10,39}",
    "jwt": r"eyJ[\w-]+\.eyJ[\w-]+\.[\w-]{43,86}",
    "langsmith": r"lsv2_pt_[0-9a-f]{32}_[0-9a-f]{10}",
    "linear": r"lin_api_\w{40}",
    "mailchimp": r"[0-9a-f]{32}-us\d{1,2}",
    "named-secret": r"[A-Za-z0-9+/=_-]{24,64}",
    "new-relic": r"NRAK-[A-Z0-9]{27}",
    "npm": r"npm_\w{36}",
    "openai": r"sk-\w{20}T3BlbkFJ\w{20}|sk-(proj|svcacct)-[\w-]{74}T3BlbkFJ[\w-]{74}",
    "password": r"[A-Z][\w.-]{7,}",
    "phone": r"\+?[\d ()./-]{8,20}",
    "private-key": r"([A-Za-z0-9+/=]{64}\n)*[A-Za-z0-9+/=]{1,64}",
    "pypi": r"pypi-AgEIcHlwaS5vcmc[\w-]{100,}",
    "replicate": r"r8_\w{37}",
    "rubygems": r"rubygems_[0-9a-f]{48}",
    "sendgrid": r"SG\.[\w-]{22}\.[\w-]{43}",
    "shopify": r"shpat_[0-9a-f]{32}",
    "slack": r"xox[bp]-[\da-zA-Z-]+|\w{24}",
    "ssn": r"\d{3}-\d\d-\d{4}|\d{9}",
    "stripe": r"(sk|rk)_(live|test)_\w{24,99}|whsec_\w{32}",
    "telegram": r"\d{10}:AA[\w-]{33}",
    "twilio": r"SK[0-9a-f]{32}|[0-9a-f]{32}",
    "vault": r"hvs\.[\w-]{95}",
}


def decoded(sample: Sample, span: Span) -> str:
    """What a span says, without the place's quoting: done here by the standard library's decoders."""
    text = marked_text(sample, span)
    encode = next((place.encode for place in places.PLACES if place.id == sample.place), str)
    if sample.place.startswith("base64"):
        blob = re.search(r'"body": "([^"]*)"', sample.text)
        assert blob
        first = span.start - blob.start(1)
        inner = base64.b64decode(blob[1])[-(-first * 6 // 8) : (span.end - blob.start(1)) * 6 // 8].decode()
        return json.loads(f'"{inner}"') if sample.place == "base64-json" else inner
    name = encode.__name__
    if name == "_url":
        return unquote(text)
    if name == "_xml":
        return html.unescape(text)
    if name == "_csv":
        return text.replace('""', '"')
    for _ in range({"_json": 1, "_json_twice": 2}.get(name, 0)):
        text = json.loads(f'"{text}"')
    return re.sub(r"\\(.)", lambda m: {"n": "\n"}.get(m[1], m[1]), text) if name == "_single" else text


@pytest.mark.parametrize("kind", sorted({span.kind for sample in SAMPLES for span in sure(sample)}))
def test_spans_hold_what_their_kind_looks_like(kind: str) -> None:
    for sample in SAMPLES:
        for span in sample.spans:
            if span.kind == kind:
                text = decoded(sample, span)
                if sample.form == "gcp-service-account":
                    text = text.replace("\\n", "\n")
                assert re.fullmatch(SHAPES[kind], text), (sample.template, text)


def test_values_that_need_a_name_stand_beside_one() -> None:
    forms = {form.id: form for form in (*corpus.POSITIVE, *corpus.NEGATIVE) if form.needs_name}

    for sample in SAMPLES:
        if sample.form in forms and not sample.place.startswith("base64"):
            names = [name.lower() for name in forms[sample.form].names]
            said = unquote(sample.text).lower()
            assert any(name in said or re.sub(r"[-.]", "_", name) in said for name in names), sample.template


def test_another_seed_makes_other_values_so_none_is_written_down_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    before = {marked_text(sample, span) for sample in SAMPLES for span in sure(sample)}

    monkeypatch.setattr(corpus, "SEED", "another")
    others = [sample for form in corpus.POSITIVE for sample in corpus._samples(form)]

    assert before & {marked_text(sample, span) for sample in others for span in sure(sample)} == set()


def test_no_value_is_one_that_documentation_uses() -> None:
    known = (
        "EXAMPLE",
        "4242424242424242",
        "4111111111111111",
        "378282246310005",
        "DE89370400440532013000",
        "078-05-1120",
    )

    for sample in SAMPLES:
        assert not any(text in sample.text for text in known)


@given(st.lists(st.tuples(st.text(max_size=12), st.sampled_from(["", "secret"])), max_size=6))
def test_in_base64_the_marked_characters_are_those_that_hold_the_secret(pieces: list[tuple[str, str]]) -> None:
    marked = Marked(tuple(pieces))
    encoded = marked.base64()
    keep = {index for span in encoded.spans for index in range(span.start, span.end)}

    blanked = "".join(c if index in keep or c == "=" else "A" for index, c in enumerate(encoded.text))
    raw = base64.b64decode(blanked)

    assert base64.b64decode(encoded.text).decode() == marked.text
    at = 0
    for text, kind in pieces:
        size = len(text.encode())
        if kind:
            assert raw[at : at + size] == text.encode()
        at += size


def test_marked_text_keeps_its_marks_when_it_is_joined_and_quoted() -> None:
    marked = ("a=" + sensitive('x"y', "secret") + plain(";")).map(lambda text: json.dumps(text)[1:-1])

    assert marked.text == 'a=x\\"y;'
    assert marked.spans == (Span(2, 6, "secret"),)


@pytest.mark.parametrize("kind", texts.ALL_KINDS)
def test_plain_texts_are_of_the_size_asked_for_and_always_the_same(kind: str) -> None:
    pieces = texts.pieces(kind, 40_960)

    assert [len(piece) for piece in pieces] == [texts.PIECE_BYTES] * 10
    assert len(set(pieces)) == 10
    assert pieces == texts.pieces(kind, 40_960)


def test_a_quick_look_lets_nothing_of_it_pass_that_a_close_one_finds() -> None:
    passed = [sample.text for sample in SAMPLES if is_plainly_clean(sample.text.encode())]

    assert len(passed) > 100
    assert [text for text in passed if hits_in(text, DEFAULT)] == []
