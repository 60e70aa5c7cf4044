"""The reports of `ci`: each can be read back, and nothing that an agent says is obeyed by whoever reads it."""

from __future__ import annotations

import errno
import json
import os
import re
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
from click import unstyle
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from replaykit.cases.run_session import SeenCall
from replaykit.errors import StoreError, UsageError
from replaykit.model.result import Deviation, Evidence, EvidenceSource, Finding
from replaykit.model.values import raw
from replaykit.report.ci import ci_json, ci_text
from replaykit.report.ci_files import planned, write_reports
from replaykit.report.ci_junit import ci_junit
from replaykit.report.ci_markdown import ci_markdown, code, commands, harmless, tell_github
from replaykit.trials.ci_causes import by_cause
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPart, CiPartName, CiResult

HOSTILE = "</pre><script>alert(1)</script>\n::error::pwned ##[add-mask]x \x1b[2J\x00 ]]> ``` <img src=http://x/y>"


def failed(text: str = "It was $5", **said: object) -> CiItem:
    members: dict[str, object] = {
        "part": CiPartName.REPLAY,
        "id": "incident",
        "outcome": CiOutcome.FAILED,
        "verdict": "broken",
        "reason": text,
        "divergence": Deviation(kind="missing", text=f"call 2: {text}"),
        "failures": (
            Finding(kind="k", holds=False, text=text, expected="less", actual=text, id="inv", severity="critical"),
        ),
        "input_json": raw(text),
        "output_json": raw(text),
        "error": text,
        "calls": (SeenCall(name="lookup", arguments_json=raw({"q": text}), response_json=raw(text), status=503),),
        "duration_s": 0.25,
        "evidence": ".replaykit/runs/x",
        "file": "replays/a,b.yaml",
        "line": 7,
        "command": "replaykit replay replays/a.yaml",
    }
    return CiItem(**{**members, **said})  # type: ignore[arg-type]


def result(*items: CiItem, passed: bool = False) -> CiResult:
    good = CiItem(part=CiPartName.REPLAY, id="good", outcome=CiOutcome.PASSED, verdict="fixed")
    part = CiPart(
        part=CiPartName.REPLAY,
        name="replay_regression",
        score=50.0,
        weight=0.1,
        total=len(items) + 1,
        passed=1,
        duration_s=1,
    )
    return CiResult(
        passed=passed,
        exit_code=0 if passed else 1,
        score=50.0,
        verdict="passed: score 50" if passed else "failed: score 50",
        agent="agents:answer",
        config="replaykit.yaml",
        parts=(part,),
        items=(good, *items),
    )


def test_junit_has_a_suite_for_the_part_and_a_test_for_each_item() -> None:
    error = failed(id="odd", outcome=CiOutcome.ERROR, verdict="error", failures=(), reason="no agent")
    untested = failed(id="idle", outcome=CiOutcome.UNTESTED, verdict="untested", failures=())
    root = Xml.fromstring(ci_junit(result(failed(), error, untested)))

    (suite,) = root
    assert (root.tag, suite.tag, suite.get("name")) == ("testsuites", "testsuite", "replay_regression")
    counts = [(e.get("tests"), e.get("failures"), e.get("errors"), e.get("skipped")) for e in (root, suite)]
    assert counts == [("4", "1", "2", "0")] * 2
    tests = suite.findall("testcase")
    assert [test.get("name") for test in tests] == ["good", "incident", "odd", "idle"]
    assert [[child.tag for child in test if child.tag != "system-out"] for test in tests] == [
        ["properties"],
        ["properties", "failure"],
        ["properties", "error"],
        ["properties", "error"],
    ]
    failure = tests[1].find("failure")
    assert failure is not None
    assert failure.get("message") == "inv (critical): expected less, got It was $5"
    assert "replaykit replay replays/a.yaml" in (failure.text or "")
    assert (tests[1].get("file"), tests[1].get("line"), tests[1].get("time")) == ("replays/a,b.yaml", "7", "0.250")
    assert "[503]" in (tests[1].findtext("system-out") or "")


def test_junit_has_the_verdict_of_each_test_and_what_it_rests_on() -> None:
    used = Evidence(used=2, recorded=5, how=EvidenceSource.REPORTED)
    live = CiItem(
        part=CiPartName.REPLAY, id="live", outcome=CiOutcome.PASSED, verdict="fixed", tape=used, offline=False
    )

    root = Xml.fromstring(ci_junit(result(live)))

    told = {test.get("name"): {p.get("name"): p.get("value") for p in test.iter("property")} for test in root[0]}
    assert told["good"] == {"verdict": "fixed"}
    assert told["live"] == {
        "verdict": "fixed",
        "evidence": "reported: 2 of 5 recorded answers used",
        "live": "with live calls",
    }


def test_what_passed_with_live_calls_is_named() -> None:
    live = CiItem(part=CiPartName.REPLAY, id="live", outcome=CiOutcome.PASSED, verdict="fixed", offline=False)

    for report in (ci_text, ci_markdown):
        assert "note: calls were done for real in: live" in report(result(live, passed=True))
        assert "done for real" not in report(result(passed=True))


def test_how_an_incident_went_wrong_stands_beside_what_failed() -> None:
    item = failed(expected_failure="It made up a figure")

    for report in (ci_text, ci_markdown, ci_junit):
        assert "It made up a figure" in report(result(item))


@given(st.text(st.characters(exclude_categories=[]), max_size=60))
def test_junit_is_xml_whatever_an_agent_says(text: str) -> None:
    said = text.encode("utf-8", "replace").decode()

    root = Xml.fromstring(ci_junit(result(failed(said, id=said or "x", error=text))))

    assert len(root.findall(".//testcase")) == 2


def test_junit_spells_control_characters_out() -> None:
    text = ci_junit(result(failed(HOSTILE)))

    assert "\\x1b[2J\\x00" in text
    assert not re.search("[\x00-\x08\x0b\x0c\x0e-\x1f]", text)


def test_junit_that_is_printed_in_a_job_is_no_command_and_says_the_same() -> None:
    text = ci_junit(result(failed("a\n::error::pwned ##[add-mask]x")))

    assert "::" not in text
    assert "##[" not in text
    assert "::error::pwned ##[add-mask]x" in (Xml.fromstring(text).findtext(".//system-out") or "")


def test_markdown_shows_what_an_agent_said_only_as_code() -> None:
    text = ci_markdown(result(failed(HOSTILE, id="x|y")))

    outside = re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", text)
    assert "<" not in outside
    assert "alert" in text
    assert "| replay_regression | 1 of 2 | 0.1 | 50 |" in text


@given(st.text(st.sampled_from("`a <"), min_size=1, max_size=12))
def test_a_fence_is_longer_than_every_run_of_backticks_inside(text: str) -> None:
    told = code(text)
    fence = re.match("`+", told)

    assert fence is not None
    inner = told[len(fence[0]) : -len(fence[0])]
    assert fence[0] not in inner
    assert told.endswith(fence[0])


def test_annotations_are_one_line_each_at_the_file_and_line() -> None:
    (line,) = commands(result(failed("100%\r\nsure", id="a:b,c")))

    assert line.startswith("::error file=replays/a%2Cb.yaml,line=7,title=replay broken%3A a%3Ab%2Cc::")
    assert "\n" not in line
    assert "%25" in line
    assert "%0A" in line


def test_what_passes_all_the_same_is_a_warning() -> None:
    (line,) = commands(result(failed(), passed=True))

    assert line.startswith("::warning ")


def test_github_is_told_only_where_it_listens() -> None:
    said: list[str] = []

    tell_github(result(failed()), said.append, {})
    assert not said
    tell_github(result(failed()), said.append, {"GITHUB_ACTIONS": "true"})
    assert len(said) == 1


def test_a_job_in_a_directory_below_annotates_the_files_of_the_repository(tmp_path: Path) -> None:
    Path("service").mkdir()
    os.chdir("service")
    inside, outside = failed(file="replays/a.yaml"), failed(file="/etc/passwd")

    lines = list(commands(result(inside, outside), str(tmp_path)))

    assert "file=service/replays/a.yaml,line=7," in lines[0]
    assert "file=/etc/passwd,line=7," in lines[1]
    assert "file=replays/a.yaml,line=7," in next(commands(result(inside)))


def test_the_summary_of_the_job_is_appended_to() -> None:
    Path("summary.md").write_text("before\n")

    tell_github(result(failed()), print, {"GITHUB_STEP_SUMMARY": "summary.md"})

    text = Path("summary.md").read_text()
    assert text.startswith("before\n## ❌ replaykit ci")


def test_no_line_of_the_output_is_a_command_to_whoever_reads_the_log() -> None:
    items = (failed(HOSTILE, id=HOSTILE), failed(HOSTILE, failures=(), outcome=CiOutcome.ERROR, faults=(HOSTILE,)))
    text = harmless(ci_text(result(*items, *items)))

    assert not [line for line in text.splitlines() if line.lstrip().startswith("::")]
    assert "##[" not in text
    assert "##[" not in ci_json(result(failed(HOSTILE)))
    assert "\x1b[2J" not in text


def test_the_json_says_what_it_says_in_spite_of_that() -> None:
    told = json.loads(ci_json(result(failed(HOSTILE))))

    assert told["items"][1]["input"] == HOSTILE
    assert told["items"][1]["calls"][0]["response"] == HOSTILE


def test_the_text_tells_what_failed_and_how_to_look_closer() -> None:
    text = re.sub(r"\x1b\[[0-9;]*m", "", ci_text(result(failed())))

    assert text == (
        "✗ replay broken: incident\n"
        "    input    It was $5\n"
        "    failed   inv (critical)\n"
        "    expected less\n"
        "    got      It was $5\n"
        "    diverged call 2: It was $5\n"
        "    error    It was $5\n"
        "    where    replays/a,b.yaml:7\n"
        "    evidence .replaykit/runs/x\n"
        "    rerun    replaykit replay replays/a.yaml\n"
        "\n"
        "part                      passed  weight   score\n"
        "replay_regression         1 of 2     0.1      50\n"
        "\n"
        "failed: score 50"
    )


def test_a_reason_is_told_with_what_to_do_at_its_end() -> None:
    reason = f"the agent {'x' * 100} takes no tape\nWrap the application"

    assert "takes no tape\n             | Wrap the application\n" in ci_text(result(failed(reason, failures=())))


def test_what_could_not_be_run_for_one_reason_is_told_once() -> None:
    reason = "the agent cannot be loaded"
    items = [failed(reason, id=f"i{n}", outcome=CiOutcome.ERROR, verdict="error", failures=()) for n in range(30)]

    text = unstyle(ci_text(result(*items, failed(id="other"))))

    assert text.count("why      the agent cannot be loaded") == 1
    assert (
        "also     29 more with the same cause\n             replay i1 (replays/a,b.yaml:7): .replaykit/runs/x\n" in text
    )
    assert "… and 19 more; --json and the reports have all" in text
    assert "other" in text


def test_each_report_for_people_tells_of_a_cause_once_and_those_for_programs_have_every_item() -> None:
    rule = Finding(kind="contains", holds=False, text="", expected="sorry", actual="It was $5", id="polite")
    same = [failed(id=f"same{n}", failures=(rule,), error="", divergence=None) for n in range(3)]
    elsewhere = replace(same[0], id="elsewhere", failures=(replace(rule, actual="Hm"),))
    other = replace(same[0], id="other", failures=(replace(rule, id="brief"),))
    found = result(*same, elsewhere, other)

    for text in (unstyle(ci_text(found)), ci_markdown(found)):
        assert text.count("polite") == 1
        assert text.count("brief") == 1
        assert "3 more with the same cause" in text
        assert text.index("same2") < text.index("replay elsewhere")
    assert [item["id"] for item in json.loads(ci_json(found))["items"]][1:] == [
        *("same0", "same1", "same2", "elsewhere", "other")
    ]
    assert len(Xml.fromstring(ci_junit(found)).findall(".//testcase")) == 6


def test_one_error_is_one_cause_whatever_varies_in_it() -> None:
    timeouts = [failed(id=f"t{n}", error=f"TimeoutError: no answer after {n}.5 s", divergence=None) for n in range(3)]
    refused = failed(id="refused", error="PermissionError: refused", divergence=None)

    assert list(map(len, by_cause([*timeouts, refused]))) == [3, 1]


def test_calls_that_left_the_tape_have_one_cause_where_they_differ_in_the_same_place() -> None:
    def left(tool: str, path: str, run: str) -> CiItem:
        text = f"run {run!r} left its recording at call 2\n  now       x\n  added     {path}: 1"
        return failed(id=run, divergence=Deviation(kind="missing", name=tool, text=text))

    items = [left("a", "$.q", "one"), left("a", "$.q", "two"), left("a", "$.p", "three"), left("b", "$.q", "four")]

    assert list(map(len, by_cause(items))) == [2, 1, 1]


def test_the_faults_that_struck_are_told() -> None:
    faults = tuple(f"tool.error in t{n}" for n in range(7))

    assert "injected tool.error in t0; tool.error in t1" in unstyle(ci_text(result(failed(faults=faults))))
    assert "(and 2 more)" in ci_markdown(result(failed(faults=faults)))


def test_many_failures_are_cut_and_counted() -> None:
    text = unstyle(ci_text(result(*(failed(chr(97 + n), id=f"i{n}") for n in range(25)))))

    assert "i19" in text
    assert "i20" not in text
    assert "… and 5 more" in text


def write_page(file: Path, _: CiResult) -> None:
    file.write_text("<!doctype html>")


def test_a_directory_gets_every_report() -> None:
    told = list(write_reports(result(failed()), planned(Path("out/reports")), write_page))

    assert sorted(file.name for file in told) == ["ci.html", "ci.json", "ci.md", "junit.xml"]
    assert all(file.stat().st_size for file in told)


@pytest.mark.parametrize(
    ("name", "start"), [("a.json", "{"), ("a.xml", "<?xml"), ("a.md", "## "), ("a.HTML", "<!doctype html>")]
)
def test_a_file_gets_the_report_that_its_name_tells(name: str, start: str) -> None:
    list(write_reports(result(failed()), planned(Path(name)), write_page))

    assert Path(name).read_text().startswith(start)


def test_a_report_is_there_as_a_whole_or_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("junit.xml").write_text("before")
    whole = Path.write_text

    def full(self: Path, text: str, **options: str) -> int:
        whole(self, text[:20], **options)
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(StoreError, match=r"junit\.xml cannot be written: No space left on device"):
        list(write_reports(result(failed()), planned(None, junit=Path("junit.xml")), write_page))

    assert [(file.name, file.read_text()) for file in Path().iterdir()] == [("junit.xml", "before")]


def test_a_report_that_cannot_be_written_keeps_no_other_from_being_there() -> None:
    Path("file").touch()
    files = planned(None, junit=Path("file/junit.xml"), markdown=Path("ci.md"), html=Path("ci.html"))
    told = []

    with pytest.raises(StoreError, match=r"file/junit\.xml"):
        told += [file.name for file in write_reports(result(failed()), files, write_page)]

    assert Path("ci.md").is_file()
    assert Path("ci.html").is_file()


def test_a_link_stays_one_and_a_device_is_written_to() -> None:
    Path("real.xml").touch()
    Path("link.xml").symlink_to("real.xml")

    list(write_reports(result(failed()), planned(None, junit=Path("link.xml"), html=Path("/dev/null")), write_page))

    assert Path("link.xml").is_symlink()
    assert Path("real.xml").read_text().startswith("<?xml")
    assert Path("/dev/null").is_char_device()


def test_a_file_whose_name_tells_nothing_is_refused() -> None:
    Path("report").touch()

    with pytest.raises(UsageError, match="does not say which report"):
        planned(Path("report"))


def test_a_report_that_cannot_be_written_is_told() -> None:
    Path("file").touch()

    with pytest.raises(StoreError, match="cannot be written"):
        list(write_reports(result(), planned(None, junit=Path("file/junit.xml")), write_page))
