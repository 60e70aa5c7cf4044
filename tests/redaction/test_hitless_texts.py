"""Files with texts in which a redactor has found nothing are not looked through by it again."""

import json

from replaykit.redaction.redactor import Redactor
from replaykit.redaction.search import HitlessTexts

PROSE = "The order 0.1234567891 came late, and nobody knew why. " * 2000
SECRET = "password: Kormel-vita418"


def looked_at(value: object) -> tuple[Redactor, bytes]:
    """A redactor that has looked at a value, and what it made of it."""
    redactor = Redactor(b"key")
    redactor.hitless_texts = HitlessTexts()
    return redactor, redactor.raw(json.dumps(value).encode())


def searches(redactor: Redactor, monkeypatch, content: bytes) -> int:
    """How often the redactor searches a text when it scans this content."""
    texts = []
    monkeypatch.setattr(redactor, "edits", lambda text: texts.append(text) or [])
    redactor.scan(content)
    return len(texts)


def test_a_text_without_findings_is_not_searched_again(monkeypatch):
    redactor, shown = looked_at(PROSE)

    assert searches(redactor, monkeypatch, shown + b"\n") == 0


def test_a_text_that_is_another_by_one_byte_is_searched(monkeypatch):
    redactor, shown = looked_at(PROSE)

    assert searches(redactor, monkeypatch, shown.replace(b"late", b"lake", 1) + b"\n") == 1


def test_a_text_that_nobody_looked_at_is_searched():
    redactor, shown = looked_at(PROSE)

    assert redactor.scan(shown[:-1] + SECRET.encode() + b'"\n')


def test_a_text_with_a_finding_is_not_remembered():
    redactor, shown = looked_at(PROSE + SECRET)
    before = json.dumps(PROSE + SECRET).encode()

    assert shown != before
    assert redactor.scan(before + b"\n")


def test_objects_and_lists_are_searched_whatever_was_found_in_their_text(monkeypatch):
    value = [PROSE]
    redactor, shown = looked_at(value)
    assert redactor.hitless_texts is not None
    redactor.hitless_texts.add(shown.decode())

    assert not redactor.hitless_texts.has(shown)
