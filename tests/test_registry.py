"""Registries: what other packages add is found, what is broken is named, what is unknown is told the nearest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replaykit.cases.signatures import DETECTORS
from replaykit.checks.assertions import ASSERTIONS, parse_assertion
from replaykit.errors import UsageError
from replaykit.export.forms import EXPORTERS
from replaykit.formats.files import IMPORTERS
from replaykit.registry import Registry

REGISTRIES = [ASSERTIONS, DETECTORS, IMPORTERS, EXPORTERS]
PLUGIN = """
from replaykit.checks.rule import Rule, Seen
from replaykit.cases.signatures import FailureSignature
from replaykit.checks.assertions import parse_assertion
from replaykit.model.run import TraceRun


class Polite(Rule, frozen=True, kw_only=True):
    plain = "word"
    word: str = "please"

    def check(self, run, side):
        holds = self.word in str(run.output)
        return Seen(holds=holds, text="Polite" if holds else "Rude", expected=self.word, actual=str(run.output))


def rude(run):
    return [FailureSignature(code="rude", assertion=parse_assertion("not", {"polite": "please"}), text="Rude")]


class Lines:
    name = "lines"
    title = "Lines"

    def recognises(self, source):
        return source.text.startswith(b"LINES")

    def read(self, source):
        yield TraceRun(id="from-lines")


def shout(run):
    return run.id.upper().encode()


LINES = Lines()
"""

Install = Callable[..., None]


@pytest.fixture
def install(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Install]:
    """Install a distribution: its metadata and its module, on the path of this process and of those it starts."""
    site = own_directory / "site"
    site.mkdir()
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", str(site), prepend=os.pathsep)

    added: list[str] = []

    def add(name: str, entry_points: str, code: str = "") -> None:
        added.append(name)
        info = site / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(entry_points)
        (site / f"{name}.py").write_text(code)

    yield add
    for name in added:
        sys.modules.pop(name, None)


def python(program: str) -> object:
    """What a program prints as JSON, run in a fresh process."""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def replaykit(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "replaykit", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def fruit() -> Registry[object]:
    registry: Registry[object] = Registry("fruit basket")
    registry.register("apple")("an apple")
    return registry


def test_the_groups_are_those_of_the_documentation() -> None:
    assert [registry.group for registry in REGISTRIES] == [
        "replaykit.assertions",
        "replaykit.detectors",
        "replaykit.importers",
        "replaykit.exporters",
    ]
    page = (Path(__file__).parents[1] / "docs" / "assertions.md").read_text(encoding="utf-8")
    assert all(registry.group in page for registry in REGISTRIES)


def test_an_installed_assertion_is_one_like_any_other(install: Install) -> None:
    install("manners", "[replaykit.assertions]\npolite = manners:Polite\n", PLUGIN)
    program = """
import json
from replaykit.checks.assertions import ASSERTIONS, parse_assertion
from replaykit.model.result import Side
from replaykit.model.run import TraceRun
from replaykit.model.values import raw
run = TraceRun(id="r", output_json=raw("yes please"))
finding = parse_assertion("polite", "please").check(run, Side.DESIRED)
print(json.dumps(["polite" in ASSERTIONS, finding.kind, finding.holds, finding.text]))
"""

    assert python(program) == [True, "polite", True, "Polite"]


def test_a_case_may_use_an_installed_assertion(install: Install) -> None:
    install("manners", "[replaykit.assertions]\npolite = manners:Polite\n", PLUGIN)
    Path("case.yaml").write_text(f"replaykit: 1\nid: {Path.cwd().name}\ndesired:\n  - polite: please\n")

    assert replaykit("lint", ".").returncode == 0


def test_an_installed_detector_is_asked(install: Install) -> None:
    points = "[replaykit.detectors]\nrude = manners:rude\n[replaykit.assertions]\npolite = manners:Polite\n"
    install("manners", points, PLUGIN)
    program = """
import json
from replaykit.cases.signatures import detect
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw
print(json.dumps([s.code for s in detect(TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw("no")))]))
"""

    assert python(program) == ["rude"]


def test_an_installed_importer_reads_its_files(install: Install) -> None:
    install("manners", "[replaykit.importers]\nlines = manners:LINES\n", PLUGIN)
    Path("trace.txt").write_text("LINES of a foreign trace")
    program = """
import json
from replaykit.formats.files import import_trace
found = import_trace("trace.txt")
named = import_trace("trace.txt", "lines")
print(json.dumps([found.format, found.runs[0].id, named.runs[0].id]))
"""

    assert python(program) == ["lines", "from-lines", "from-lines"]


def test_an_installed_exporter_writes_its_form(install: Install) -> None:
    install("manners", "[replaykit.exporters]\nshout = manners:shout\n", PLUGIN)
    program = """
import json
from replaykit.export.forms import export_run
from replaykit.model.run import TraceRun
print(json.dumps(export_run(TraceRun(id="quiet"), "shout").decode()))
"""

    assert python(program) == "QUIET"


def test_other_groups_are_left_alone(install: Install) -> None:
    install("manners", "[replaykit.something]\nx = manners:boom\n[console_scripts]\ny = manners:z\n", "1 / 0")

    assert list(fruit()) == ["apple"]


def test_nothing_is_looked_up_before_it_is_needed(install: Install) -> None:
    install("manners", "[replaykit.fruit_baskets]\npear = manners:pear\n", "raise SystemExit('loaded')")

    registry = fruit()

    assert registry.group == "replaykit.fruit_baskets"
    assert "manners" not in sys.modules


def test_entries_are_found_once_and_the_built_in_ones_win(install: Install) -> None:
    install("manners", "[replaykit.fruit_baskets]\npear = manners:PEAR\napple = manners:PEAR\n", "PEAR = 'a pear'")
    registry = fruit()

    assert list(registry) == ["apple", "pear"]
    assert registry.values() == ["an apple", "a pear"]
    assert registry.get("apple") == "an apple", "a package cannot change what a built-in name means"
    assert "pear" in registry


def test_a_package_cannot_take_the_name_of_what_is_imported_when_it_is_asked_for(install: Install) -> None:
    install("manners", "[replaykit.fruit_baskets]\npear = manners:PEAR\nfig = manners:PEAR\n", "PEAR = 'a pear'")
    Path("orchard.py").write_text("import builtins\nbuiltins.basket.register('fig')('a fig')\n")
    program = """
import builtins, json
from replaykit.registry import Registry
builtins.basket = Registry("fruit basket", {"fig": "orchard"})
print(json.dumps([list(builtins.basket), builtins.basket.get("fig"), builtins.basket.values()]))
"""

    assert python(program) == [["fig", "pear"], "a fig", ["a fig", "a pear"]]


BROKEN = {
    "a module that is not there": ("pear = no_such_module:PEAR", ""),
    "a name that is not there": ("pear = manners:NOTHING", ""),
    "a module that raises": ("pear = manners:PEAR", "raise RuntimeError('wrong version')"),
    "a module that is no Python": ("pear = manners:PEAR", "def ("),
}


@pytest.mark.parametrize(("line", "code"), BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_entry_is_named_with_what_to_do(install: Install, line: str, code: str) -> None:
    install("manners", f"[replaykit.fruit_baskets]\n{line}\n", code)
    registry = fruit()

    assert registry.get("apple") == "an apple"  # what is here needs nobody else
    for look in (lambda: registry.get("pear"), lambda: "pear" in registry, lambda: list(registry), registry.values):
        with pytest.raises(UsageError, match=r"the fruit basket 'pear' of .* could not be loaded") as caught:
            look()
        assert caught.value.hint == "Uninstall or repair that package."


def test_a_broken_entry_is_named_with_its_package(install: Install) -> None:
    install("bad_manners", "[replaykit.fruit_baskets]\npear = bad_manners:NOTHING\n")

    with pytest.raises(UsageError, match="bad-manners"):
        fruit().get("pear")


def test_a_broken_package_is_wrong_usage_on_the_command_line(install: Install) -> None:
    install("manners", "[replaykit.assertions]\npolite = manners:NOTHING\n")
    Path("case.yaml").write_text("replaykit: 1\nid: x\ndesired:\n  - polite: please\n")

    done = replaykit("lint", ".")

    assert done.returncode == 2
    assert "the assertion 'polite' of" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("registry", "wrong", "right"),
    [(ASSERTIONS, "status_si", "status_is"), (DETECTORS, "lop", "loop"), (IMPORTERS, "runlog", "run_log"),
     (EXPORTERS, "replykit", "replaykit")],
    ids=lambda value: value.what if isinstance(value, Registry) else value,
)  # fmt: skip
def test_an_unknown_name_is_answered_with_the_nearest(registry: Registry[object], wrong: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"unknown {registry.what} '{wrong}'; did you mean '{right}'"):
        registry.get(wrong)

    assert wrong not in registry


def test_an_unknown_name_like_no_other_is_answered_with_all() -> None:
    with pytest.raises(UsageError, match="unknown fruit basket 'xyz'; valid: apple"):
        fruit().get("xyz")


def test_an_unknown_assertion_in_a_case_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="unknown assertion 'max_tool_call'; did you mean 'max_tool_calls'"):
        parse_assertion("max_tool_call", 3)
