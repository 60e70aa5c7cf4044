"""The second check: what redaction misses does not leave the machine unseen."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from hashlib import sha256
from pathlib import Path

import pytest
from bench.redaction.corpus import HALVES, half
from bench.redaction.hard_negatives import hard_negatives
from tests.redaction.made_up_secrets import drawn, hexed, jwt, with_crc

from replaykit.errors import UsageError
from replaykit.redaction import DEFAULT, Redactor, find, load_rules
from replaykit.redaction.files import leaks_in, missed_leaks, refuse_leaks, write_clean
from replaykit.redaction.placeholders import placeholders_in
from replaykit.redaction.second_check import ENTROPY_RULE, SecondCheck, suspicions_in

REDACTOR = Redactor(b"a key for tests, thirty-two long")
MISSED = {
    "openshift-token": f"login sha256~{drawn(43)}",
    "sourcegraph-token": f"use sgp_{hexed(40)} here",
    "easypost-key": f"EZAK{drawn(54)}",
    "infracost-key": f"ico-{drawn(32)}",
    "readme-key": f"rdme_{drawn(70, 'abcdefghijklmnop0123456789')}",
    ENTROPY_RULE: f"the token which we use for it, by the way, bearer of all: {drawn(32)}",
}


@pytest.mark.parametrize("rule", MISSED)
def test_what_only_the_second_check_finds_blocks(rule: str) -> None:
    text = f"first line\n{MISSED[rule]}\n"
    assert find(text) == []

    with pytest.raises(UsageError) as caught:
        refuse_leaks({"cases/a/case.yaml": text.encode()}, REDACTOR)

    assert "cases/a/case.yaml:2:" in caught.value.message
    assert rule in caught.value.message
    assert 'allow = ["sha256:' in (caught.value.hint or "")


def test_nothing_is_written_where_it_blocks() -> None:
    with pytest.raises(UsageError):
        write_clean(Path("a.json"), json.dumps({"note": MISSED["openshift-token"]}), REDACTOR, fail_closed=True)

    assert not list(Path().glob("*a.json*"))


@pytest.mark.parametrize("rule", MISSED)
def test_the_hash_that_the_message_names_allows_the_value(rule: str) -> None:
    [leak] = missed_leaks("a.txt", MISSED[rule], REDACTOR)
    Path("redaction.toml").write_text(f'allow = ["{leak.allow}"]\n')
    allowing = Redactor(REDACTOR.key, load_rules("redaction.toml"))

    assert missed_leaks("a.txt", MISSED[rule], allowing) == []
    refuse_leaks({"a.txt": MISSED[rule].encode()}, allowing)


def test_the_hash_is_that_of_the_value() -> None:
    [leak] = missed_leaks("a.txt", MISSED["infracost-key"], REDACTOR)

    assert leak.allow == f"sha256:{sha256(MISSED['infracost-key'].encode()).hexdigest()}"


def test_what_the_first_check_has_found_is_named_once() -> None:
    text = f'aws_secret_access_key = "{drawn(40)}"'

    assert leaks_in("a.txt", text, REDACTOR)
    assert missed_leaks("a.txt", text, REDACTOR) == []


@pytest.mark.parametrize("chosen", HALVES)
def test_placeholders_never_block(chosen: str) -> None:
    for sample in half(chosen):
        if sample.spans and not REDACTOR.is_clean(sample.text):
            after = REDACTOR.text(sample.text)
            placeholders = placeholders_in(after.encode())
            for one in suspicions_in(after, DEFAULT):
                assert not [found for found in placeholders if found.start < one.end and one.start < found.end]


def test_placeholders_of_every_kind_pass_beside_telling_words() -> None:
    values = [
        *(jwt(), with_crc("ghp_"), "sk-proj-" + drawn(40), "jane@example.com", "4111 1111 1111 1111", "hunter2-Zq9!x"),
        *("8f14e45f-ceea-467f-a830-2c5e9d1b7a11", "DE89370400440532013000", "2001:4860:4860::8888"),
    ]
    for value in values:
        text = REDACTOR.text(f'password: "{value}"\ntoken={value}\nsecret {value}\nhttps://bob:{value}@x.example/\n')

        assert missed_leaks("a.txt", text, REDACTOR) == []


def test_harmless_texts_do_not_block() -> None:
    texts = [text for _, text in hard_negatives()]
    texts += [sample.text for chosen in HALVES for sample in half(chosen) if not sample.spans]

    blocked = [text for text in texts if suspicions_in(REDACTOR.text(text), DEFAULT)]

    assert len(blocked) / len(texts) <= 0.005


@pytest.mark.parametrize(
    "unit",
    ["token=", "secret ", "token: aB3", "://a:", "aws ", "eyJ", "-----BEGIN ", "sl.", "password" * 9, "token=a("],
)
def test_hostile_text_is_checked_in_linear_time(unit: str) -> None:
    def spent(size: int) -> float:
        before = time.process_time()
        suspicions_in(unit * (size // len(unit)), DEFAULT)
        return time.process_time() - before

    short, long = (min(spent(size) for _ in range(2)) for size in (4_000, 32_000))

    assert long < 30 * max(short, 0.01)


def test_scan_names_file_line_and_rule_and_fails() -> None:
    Path("a.txt").write_text(f"one\n{MISSED['sourcegraph-token']}\n")

    done = subprocess.run(
        [sys.executable, "-m", "replaykit", "redact", "scan", "a.txt"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 1
    assert "a.txt:2:5 sourcegraph-token (second check; no secret? In redaction.toml: allow" in done.stdout


def test_a_conversation_is_checked_as_a_whole_would_be_wherever_the_suspicion_stands() -> None:
    filler = "the order is late and so on. " * 30
    rows = [{"role": "user", "content": f"{number} {filler}"} for number in range(40)]
    clean = json.dumps({"messages": rows}).encode()
    across = json.loads(clean)
    across["messages"][20]["content"] += " our signing key:"
    across["messages"][21] = {"signing_key": "Zk3vQ8mT1xR7wLb2Np5sYc9d", "content": filler}

    assert SecondCheck(DEFAULT).suspicions(clean) == []
    found = SecondCheck(DEFAULT).suspicions(json.dumps(across).encode())
    assert [one.rule for one in found] == [one.rule for one in suspicions_in(json.dumps(across), DEFAULT)] != []
