"""Most calls are recorded after a quick look for secrets: what is written is what a full search would write."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.matrix import examples
from tests.redaction.made_up_secrets import drawn, hexed, jwt, pem, with_crc

import replaykit as rk
from replaykit.model.events import AnyEvent, Call
from replaykit.redaction.events import Door
from replaykit.store.sqlite import SQLiteStore

SECRETS = {
    "email": "kora.velan@tulen-sera.de",
    "card": "4242 4242 4242 4242",
    "iban": "DE89 3704 0044 0532 0130 00",
    "phone": "+49 30 901820",
    "address": "93.184.216.34",
    "github": with_crc("ghp_"),
    "openai": "sk-proj-" + drawn(48),
    "aws": "AKIA" + drawn(16, "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"),
    "slack": f"xoxb-{drawn(11, '0123456789')}-{drawn(24)}",
    "jwt": jwt(),
    "key": pem(),
    "encoded": base64.b64encode(b"the password: Kormel-vita418 of kora.velan@tulen-sera.de").decode(),
    "login": "https://kora:Kormel-vita418@tulen-sera.de/",
    "bearer": f"Authorization: Bearer {drawn(40)}",
    "phrase": "password: Kormel-vita418",
    "digest": hexed(40),
    "fiscal": "RSSMRA85T10A562S",
}
words = st.sampled_from([*SECRETS.values(), "a report", "", "token_count", "0", "2026-01-02", "<redacted>", 'ü\n"\\'])
texts = st.lists(words | st.text(max_size=8), max_size=3).map(" ".join)
names = st.sampled_from(["note", "password", "key", "api_key", "iban", "tokens", "x"])
values = st.recursive(
    texts | st.integers() | st.floats(allow_nan=False) | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names | st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
calls = st.lists(st.tuples(texts, values, values, texts), min_size=1, max_size=4)


def recorded(directory: Path, made: list[tuple[str, Any, Any, str]], *, quickly: bool) -> list[AnyEvent]:
    """Record each call twice: whoever remembers a look remembers it then."""
    with rk.Store.open(directory / f"{next(_numbers)}.db") as store:
        assert isinstance(store, SQLiteStore)
        assert isinstance(store.door, Door)
        if not quickly:
            store.door.redactor._is_usual = False  # no quick look is taken then
        with rk.record("calls", store=store) as run:
            for name, argument, result, step in made * 2:
                make(run, name, argument, result, step)
        events = store.load(run.id).events
        assert not any(secret.encode() in bytes(raw_event(event)) for event in events for secret in unmistakable())
    return [without_times(event) for event in events]


_numbers = itertools.count()


def make(run: Any, name: str, argument: Any, result: Any, step: str) -> None:
    @rk.tool(name=name or "tool")
    def tool(value: Any) -> Any:
        return result

    with run.step(step or None):
        tool(argument)


def unmistakable() -> list[str]:
    """Secrets that are none of a reader's business wherever they stand."""
    return [SECRETS[kind] for kind in ("email", "github", "openai", "slack", "jwt")]


def raw_event(event: AnyEvent) -> bytes:
    assert isinstance(event, Call)
    return b"\n".join([event.name.encode(), (event.step or "").encode(), event.arguments_json, event.result_json])


def without_times(event: AnyEvent) -> AnyEvent:
    assert isinstance(event, Call)
    assert event.span is not None
    span = replace(event.span, begin_s=0.0, end_s=0.0)
    return replace(event, at=0.0, duration_s=0.0, span=span)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=examples(120))
@given(calls)
def test_a_quick_look_writes_what_a_full_search_writes(tmp_path: Path, made: list[tuple[str, Any, Any, str]]) -> None:
    assert recorded(tmp_path, made, quickly=True) == recorded(tmp_path, made, quickly=False)


@pytest.mark.parametrize("place", ["name", "argument", "result", "step"])
def test_secrets_of_all_kinds_are_replaced_wherever_they_stand_in_a_call(tmp_path: Path, place: str) -> None:
    made: list[tuple[str, Any, Any, str]] = [("tool", "a report", "a report", "first")]
    for secret in SECRETS.values():
        parts = {"name": "tool", "argument": "a report", "result": "a report", "step": "first", place: f"see {secret}"}
        made.append((parts["name"], parts["argument"], parts["result"], parts["step"]))

    events = recorded(tmp_path, made, quickly=True)

    assert events == recorded(tmp_path, made, quickly=False)
    texts = [raw_event(event).replace(b"\\n", b"\n") for event in events]
    left = [kind for kind, secret in SECRETS.items() if any(secret.encode() in text for text in texts)]
    assert left == ["digest"]  # which is none
