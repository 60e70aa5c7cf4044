"""Plugins: found from the configuration's directory, imported once, and refused with the line that names them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from replaykit.checks.custom import CHECKS
from replaykit.errors import InvalidFile
from replaykit.project import plugins
from replaykit.project.plugins import Plugin, load_plugins, plugin_names
from replaykit.registry import ENTERED

Load = Callable[..., tuple[Plugin, ...]]


@pytest.fixture
def load(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Write modules, name them in a configuration, and import them; whatever they enter is taken away again."""
    before = set(sys.modules)
    entered = len(ENTERED)
    monkeypatch.setattr(plugins, "_IMPORTED", {})

    def call(*names: str, **sources: str) -> tuple[Plugin, ...]:
        for name, source in sources.items():
            Path(f"{name}.py").write_text(source, encoding="utf-8")
        Path("replaykit.yaml").write_text(f"replaykit: 1\nplugins: [{', '.join(names)}]\n", encoding="utf-8")
        named = plugin_names(Path("replaykit.yaml"))
        assert named is not None
        return load_plugins(named)

    yield call
    for entry in ENTERED[entered:]:
        if not entry.is_built_in:
            entry.registry._entries.pop(entry.name, None)
    del ENTERED[entered:]
    for name in set(sys.modules) - before:
        if not name.startswith("replaykit"):
            del sys.modules[name]


CHECK = "import replaykit as rk\nrk.register_check({!r}, lambda run: True)\n"


def refused(load: Load, *names: str, **sources: str) -> str:
    with pytest.raises(InvalidFile) as caught:
        load(*names, **sources)
    return str(caught.value)


def test_a_plugin_brings_what_its_import_enters(load: Load) -> None:
    (plugin,) = load("own_checks", own_checks=CHECK.format("own"))

    assert plugin.brings == (("check", "own"),)
    assert "own" in CHECKS


def test_what_replaykit_enters_meanwhile_is_not_the_plugins(load: Load) -> None:
    (plugin,) = load("own_forms", own_forms="import replaykit.export.forms, replaykit.formats.har\n")

    assert plugin.brings == ()


def test_the_directory_is_on_the_path_for_the_import_alone(load: Load, own_directory: Path) -> None:
    load("own_path", own_path="import sys\nBEFORE = list(sys.path)\n")

    assert str(own_directory) in sys.modules["own_path"].BEFORE
    assert str(own_directory) not in sys.path


def test_what_a_plugin_prints_is_no_result(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("own_words", own_words="print('hello')\n")

    assert capsys.readouterr() == ("", "hello\n")


def test_a_second_load_imports_nothing_again(load: Load) -> None:
    first = load("own_again", own_again=CHECK.format("again"))

    assert load("own_again") == first


def test_a_plugin_that_is_not_there_is_refused_with_its_line_and_the_nearest_module(load: Load) -> None:
    text = refused(load, "own_chekcs", own_checks="")

    assert text.startswith("replaykit.yaml:2: no module 'own_chekcs' for a plugin; did you mean 'own_checks'?\n")
    assert "own_chekcs.py" in text
    assert "pip install" in text


def test_a_missing_module_of_a_package_is_looked_for_in_the_package(load: Load) -> None:
    Path("own_package").mkdir()
    Path("own_package/__init__.py").write_text("")
    Path("own_package/formats.py").write_text("")

    assert "did you mean 'formats'?" in refused(load, "own_package.format")


@pytest.mark.parametrize(
    ("source", "last", "place"),
    [
        ("import replaykit\n\n\ndef fail():\n    return 1 / 0\n\n\nfail()\n", "ZeroDivisionError", ":5, in fail"),
        (
            "import no_such_module_here\n",
            "No module named 'no_such_module_here'",
            ":1, in <module>",
        ),
        ("x = (\n", "SyntaxError: '(' was never closed", ":1"),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", ":2, in <module>"),
    ],
)
def test_a_plugin_that_fails_is_refused_with_the_last_line_and_place_of_its_traceback(
    load: Load, source: str, last: str, place: str
) -> None:
    text = refused(load, "own_broken", own_broken=source)

    assert text.startswith("replaykit.yaml:2: the plugin 'own_broken' cannot be imported: ")
    assert last in text
    assert f"own_broken.py{place}\n" in text


def test_two_plugins_cannot_define_one_name(load: Load) -> None:
    text = refused(load, "own_one", "own_two", own_one=CHECK.format("same"), own_two=CHECK.format("same"))

    assert (
        "replaykit.yaml:2: the plugin 'own_two' defines the check 'same', which the plugin 'own_one' defines too"
        in text
    )


def test_a_module_of_the_project_that_another_one_hides_is_refused(load: Load) -> None:
    assert "the plugin 'json' is json.py here, but " in refused(load, "json", json="")


@pytest.mark.parametrize("name", ["../own", "own checks", "1st", "own.", ""])
def test_a_name_that_no_module_can_have_is_refused(load: Load, name: str) -> None:
    assert "replaykit.yaml:2: " in refused(load, repr(name))
