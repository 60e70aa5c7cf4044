"""Runs of long conversations are redacted with each message once, and are whole again afterwards."""

from msgspec import Struct

from replaykit.candidates import shared_arguments
from replaykit.candidates.shared_arguments import clean_with_runs
from replaykit.model.events import ToolCall
from replaykit.model.jsonpath import parse_path
from replaykit.model.run import TraceRun
from replaykit.model.values import Raw, canonical, encode
from replaykit.redaction.redactor import Redactor
from replaykit.redaction.rules import Rules

PASSWORD = "Kormel-vita418"


class About(Struct, frozen=True):
    text: str


def conversation(messages: list[dict[str, str]], result: object = "go on") -> TraceRun:
    """A run in which each call has one message more than the one before."""
    events = tuple(
        ToolCall(
            seq=number,
            name="ask",
            arguments_json=Raw(canonical({"messages": messages[:number]})),
            result_json=Raw(encode(result)),
        )
        for number in range(1, len(messages) + 1)
    )
    return TraceRun(id="run-1", events=events, event_count=len(events))


def messages(count: int) -> list[dict[str, str]]:
    return [{"role": "user", "content": f"message {number} " + "word " * 300} for number in range(count)]


def test_a_clean_run_stays_as_it_is():
    run = conversation(messages(40))

    about, (shown,) = clean_with_runs(About("nothing"), [run], Redactor(b"key"))

    assert about == About("nothing")
    assert [call.arguments for call in shown.calls] == [call.arguments for call in run.calls]
    assert [bytes(call.arguments_json) for call in shown.calls] == [bytes(call.arguments_json) for call in run.calls]


def test_each_message_is_looked_at_once(monkeypatch):
    looked_at = []
    clean = shared_arguments.clean_struct
    monkeypatch.setattr(
        shared_arguments, "clean_struct", lambda value, *rest: looked_at.append(encode(value)) or clean(value, *rest)
    )
    run = conversation(messages(40))

    clean_with_runs(About(""), [run, run], Redactor(b"key"))

    (text,) = looked_at
    assert text.count(b"message 3 ") == 1


def test_what_is_told_in_one_place_goes_in_every_message_that_repeats_it():
    talk = messages(40)
    talk[5]["content"] += f" {PASSWORD}"
    run = conversation(talk, {"password": PASSWORD})

    about, (shown,) = clean_with_runs(About(f"it was {PASSWORD}"), [run], Redactor(b"key"))

    assert PASSWORD not in about.text
    assert all(PASSWORD.encode() not in bytes(call.arguments_json) for call in shown.calls)
    assert [len(call.arguments["messages"]) for call in shown.calls] == list(range(1, len(talk) + 1))


def test_where_a_rule_names_a_path_every_value_stands_at_its_own():
    run = conversation(messages(40))
    plain = Redactor(b"key")
    ruled = Redactor(b"key", Rules(paths=(parse_path("$.messages[*].role"),)))

    assert shared_arguments._Sharing([run], plain).parts
    assert not shared_arguments._Sharing([run], ruled).parts
