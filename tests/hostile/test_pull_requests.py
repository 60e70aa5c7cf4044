"""A stranger's pull request runs nothing, learns nothing and changes nothing, whatever verb a maintainer uses."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.hostile.pull_requests import CI, ESCAPES, HARMLESS, PLAIN, PULL_REQUESTS, REPLAY, PullRequest, case, fixture
from tests.hostile.reviewed_project import CANARY, TOOL_MARK, Ended, Victim, make_base, victim_at
from tests.matrix import sampled
from tests.viewer.page_elements import PageElements

from replaykit.isolation import Level, support

PEAK_MIB = 400
NEVER = {char for char in ESCAPES if not char.isprintable()}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_base(tmp_path_factory.mktemp("base"))


@pytest.fixture
def victim(base: Path, tmp_path: Path) -> Iterator[Victim]:
    with victim_at(tmp_path / "top", base) as made:
        yield made


def review(victim: Victim, request: PullRequest, *, isolation: str) -> list[Ended]:
    """Run the maintainer's command lines on a pull request, and see that nothing happened beside them."""
    victim.merge(request)
    before = victim.state()

    ended = victim.run(list(request.ends), isolation=isolation)

    assert victim.processes() == []
    assert victim.received == []
    assert victim.state() == before
    for one in ended:
        assert CANARY not in one.text, one
        assert TOOL_MARK not in one.text, one
        assert not NEVER & set(one.text), one
        assert "Traceback (most recent call last)" not in one.err, one
        assert not any(line.startswith(("::set-env", "::add-mask", "##[")) for line in one.text.splitlines()), one
        assert one.peak_mib < PEAK_MIB, one
    for name, content in victim.written().items():
        assert CANARY.encode() not in content, name
        assert TOOL_MARK.encode() not in content, name
    return ended


def check_reports(victim: Victim) -> None:
    """See that no text of a stranger is part of the form of a report."""
    reports = victim.project / "reports"
    if (reports / "ci.html").exists() and not (reports / "ci.html").is_symlink():
        tests = ElementTree.parse(reports / "junit.xml").iter("testcase")
        assert "fake" not in [test.get("name") for test in tests]
        PageElements((reports / "ci.html").read_text(encoding="utf-8")).check()


@sampled("name", PULL_REQUESTS, count=4, start=1)
def test_a_pull_request(victim: Victim, name: str) -> None:
    request = PULL_REQUESTS[name]

    ended = review(victim, request, isolation="process")

    for one in ended:
        code, word = request.ends[one.line]
        assert (one.code, victim.filled(word) in one.text) == (code, True), one
    check_reports(victim)


IN_THE_KERNEL = {
    **{
        name: PULL_REQUESTS[name]
        for name in (
            "asks for every tool to be live",
            "makes the agent call the attacker by its input",
            "makes the agent call a tool that is not recorded",
            "names subprocess.Popen as the type of a result",
            "sets variables that load code",
        )
    },
    "makes the agent write a file by its input": PullRequest(
        {
            **case({"input": "OUTSIDE/owned"}),
            "cases/evil/fixtures/look.json": fixture({**PLAIN, "arguments": {"question": "OUTSIDE/owned"}}),
        },
        {"replay cases/evil --agent agent:writes": HARMLESS},
    ),
}


@sampled("name", IN_THE_KERNEL, count=2, start=1)
def test_a_pull_request_with_the_isolation_of_the_kernel(victim: Victim, name: str) -> None:
    if support().level is not Level.FULL:
        pytest.skip("; ".join(support().reasons()))

    ended = review(victim, IN_THE_KERNEL[name], isolation="")

    assert [one.code for one in ended] == [code for code, _ in IN_THE_KERNEL[name].ends.values()], ended
    assert not any("Isolation: process" in one.text for one in ended), ended


def test_the_base_branch_passes(victim: Victim) -> None:
    """What the others are compared with: the same verbs, and nothing of a stranger's."""
    ended = review(victim, PullRequest({}, {"lint cases": HARMLESS, CI: HARMLESS}), isolation="process")

    assert [one.code for one in ended] == [0, 0], ended


@pytest.mark.exhaustive
def test_the_marks_of_the_victim_are_left_when_a_tool_really_runs(victim: Victim) -> None:
    """The alarm rings: without it, silence of the others would prove nothing."""
    victim.merge(PULL_REQUESTS["asks for every tool to be live"])
    before = victim.state()

    victim.run([f"{REPLAY} --live * --allow-connect ATTACKER"], isolation="process")

    assert any(CANARY.encode() in piece for piece in victim.received)
    assert victim.state() != before
