"""The result of `ci` as JUnit XML: a suite for each part, a test for each item."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.etree import ElementTree as Xml

from replaykit.cases.run_session import SeenCall
from replaykit.model.text_lines import cut
from replaykit.model.values import sayable
from replaykit.report.ci import item_lines, name_of
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPart, CiResult, payload_text

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_MESSAGE_CHARS = 300
_TEXT_CHARS = 10_000


def ci_junit(result: CiResult) -> str:
    """The XML document. What nobody could tell or test is an error there, so that no server takes it for a pass."""
    root = Xml.Element("testsuites", name="replaykit ci", time=_seconds(result.duration_s))
    _count(root, result.items)
    for part in result.parts:
        root.append(_suite(part, [item for item in result.items if item.part is part.part]))
    Xml.indent(root)
    text = Xml.tostring(root, encoding="unicode")
    # The same XML; where a job prints the file, the other spellings are commands to whoever reads the log.
    harmless = text.replace("::", "&#58;:").replace("##[", "&#35;#[")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{harmless}\n'


def _suite(part: CiPart, items: Sequence[CiItem]) -> Xml.Element:
    suite = Xml.Element("testsuite", name=part.name, time=_seconds(part.duration_s))
    _count(suite, items)
    properties = Xml.SubElement(suite, "properties")
    Xml.SubElement(properties, "property", name="score", value="" if part.score is None else f"{part.score:g}")
    Xml.SubElement(properties, "property", name="weight", value=f"{part.weight:g}")
    for item in items:
        suite.append(_test(item))
    return suite


def _count(element: Xml.Element, items: Sequence[CiItem]) -> None:
    failed = sum(item.outcome is CiOutcome.FAILED for item in items)
    passed = sum(item.outcome is CiOutcome.PASSED for item in items)
    element.set("tests", str(len(items)))
    element.set("failures", str(failed))
    element.set("errors", str(len(items) - passed - failed))
    element.set("skipped", "0")


def _test(item: CiItem) -> Xml.Element:
    test = Xml.Element("testcase", classname=item.part.value, name=_clean(item.id), time=_seconds(item.duration_s))
    if item.file:
        test.set("file", _clean(item.file))
    if item.line:
        test.set("line", str(item.line))
    properties = Xml.SubElement(test, "properties")
    for name, value in _properties(item):
        Xml.SubElement(properties, "property", name=name, value=_clean(value))
    if item.outcome is CiOutcome.PASSED:
        return test
    kind = "failure" if item.outcome is CiOutcome.FAILED else "error"
    wrong = Xml.SubElement(test, kind, type=_clean(item.verdict), message=_clean(_message(item), _MESSAGE_CHARS))
    wrong.text = _clean("\n".join(f"{word}: {text}" for word, text in item_lines(item) if text), _TEXT_CHARS)
    seen = list(map(_call, item.calls))
    if item.output_json:
        seen.insert(0, f"output: {payload_text(item.output_json)}")
    if seen:
        Xml.SubElement(test, "system-out").text = _clean("\n".join(seen), _TEXT_CHARS)
    return test


def _properties(item: CiItem) -> Iterator[tuple[str, str]]:
    yield "verdict", item.verdict
    if item.tape is not None:
        yield "evidence", f"{item.tape.how.value}: {item.tape.used} of {item.tape.recorded} recorded answers used"
    if not item.offline:
        yield "live", "with live calls"
    if item.isolation:
        yield "isolation", item.isolation
    if item.unproven:
        yield "unproven", item.unproven


def _message(item: CiItem) -> str:
    if item.failures:
        first = item.failures[0]
        return f"{name_of(first)}: expected {first.expected}, got {first.actual}"
    return item.reason or item.verdict


def _call(call: SeenCall) -> str:
    status = "" if call.status is None else f" [{call.status}]"
    return f"tool: {call.name}({payload_text(call.arguments_json)}){status} → {payload_text(call.response_json)}"


def _clean(text: str, limit: int = 1000) -> str:
    """A text that XML can hold: control characters are spelled out, and what is too long is cut."""
    return cut(_NOT_XML.sub(lambda found: f"\\x{ord(found[0]):02x}", sayable(text)), limit)


def _seconds(duration_s: float) -> str:
    return f"{duration_s:.3f}"
