"""`make dist`: the same bytes from the same commit, checksums that fit, and a bill of materials as CycloneDX has it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from datetime import datetime
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from replaykit.project.examples import all_examples

ROOT = Path(__file__).parents[2]
SUMS = "SHA256SUMS"
PURL = re.compile(r"pkg:pypi/[a-z0-9-]+@[A-Za-z0-9.+!_-]+")
SERIAL = re.compile(r"urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the time of a build is that of the last commit"),
]


class Built(NamedTuple):
    """What two clones of the last commit were built into."""

    first: Path
    second: Path
    clone: Path

    @property
    def bill(self) -> dict[str, Any]:
        [file] = self.first.glob("*.cdx.json")
        document = json.loads(file.read_text(encoding="utf-8"))
        assert isinstance(document, dict)
        return document


def build(clone: Path, target: Path, *, umask: int, timezone: str) -> None:
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, umask=umask)
    command = [sys.executable, str(clone / "tools" / "make-dist"), str(target)]
    done = subprocess.run(
        command, env={**os.environ, "TZ": timezone}, umask=umask, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stderr == ""


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    place = tmp_path_factory.mktemp("dist")
    build(place / "one", place / "a", umask=0o022, timezone="UTC")
    build(place / "another-place", place / "b", umask=0o077, timezone="Asia/Tokyo")
    return Built(place / "a", place / "b", place / "one")


def test_two_builds_of_a_commit_are_the_same_bytes(built: Built) -> None:
    names = sorted(path.name for path in built.first.iterdir())

    assert len(names) == 4
    assert names == sorted(path.name for path in built.second.iterdir())
    assert [name for name in names if (built.first / name).read_bytes() != (built.second / name).read_bytes()] == []


def test_the_checksums_are_those_of_all_files(built: Built) -> None:
    lines = (built.first / SUMS).read_text(encoding="ascii").splitlines()
    sums = {name: digest for digest, name in (line.split("  ") for line in lines)}

    assert sums.keys() == {path.name for path in built.first.iterdir()} - {SUMS}
    for name, digest in sums.items():
        assert hashlib.sha256((built.first / name).read_bytes()).hexdigest() == digest


def test_the_sdist_holds_files_of_the_repository_and_no_others(built: Built) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=built.clone, check=True, capture_output=True, text=True)
    [file] = built.first.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        members = archive.getmembers()
    names = {member.name.split("/", 1)[1] for member in members if member.isfile()}

    assert names - {"PKG-INFO"} <= set(tracked.stdout.splitlines())
    assert {"pyproject.toml", "LICENSE", "SECURITY.md", "src/replaykit/__init__.py"} <= names
    assert {(member.uid, member.gid, member.uname) for member in members} == {(0, 0, "")}


def test_the_wheel_has_the_package_and_the_time_of_the_commit(built: Built) -> None:
    said = subprocess.run(
        ["git", "log", "-1", "--format=%cd", "--date=format-local:%Y-%m-%d %H:%M"],
        cwd=built.clone,
        env={**os.environ, "TZ": "UTC"},
        check=True,
        capture_output=True,
        text=True,
    )
    [file] = built.first.glob("*.whl")
    with zipfile.ZipFile(file) as wheel:
        entries = wheel.infolist()

    assert {"replaykit/py.typed", "replaykit/viewer/static/main.js"} <= {entry.filename for entry in entries}
    times = {datetime(*entry.date_time).strftime("%Y-%m-%d %H:%M") for entry in entries}
    assert times == {said.stdout.strip()}


@pytest.fixture(scope="module")
def installed(built: Built, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel is installed, without what it needs: that is here already."""
    [wheel] = built.first.glob("*.whl")
    place = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(place)]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    return place


@pytest.mark.parametrize("name", all_examples())
def test_every_example_is_copied_from_the_installed_wheel(installed: Path, tmp_path: Path, name: str) -> None:
    env = {**os.environ, "PYTHONPATH": str(installed)}
    code = f"import replaykit, sys; assert replaykit.__file__.startswith({str(installed)!r}), replaykit.__file__"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=env, check=True, timeout=60)
    command = [sys.executable, "-m", "replaykit", "examples", "copy", name]

    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    copied = {file.relative_to(tmp_path) for file in tmp_path.rglob("*") if file.is_file()}
    tracked = subprocess.run(
        ["git", "ls-files", *[f"examples/{file}" for file in all_examples()[name].files]],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    assert {str(file) for file in copied} == set(tracked.stdout.splitlines())


@pytest.mark.parametrize("name", ["cases", "plugins", "sessions"])
def test_the_first_command_of_an_example_of_the_installed_wheel_works(
    installed: Path, tmp_path: Path, name: str
) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PYTHONPATH": str(installed), "PATH": path}
    subprocess.run([sys.executable, "-m", "replaykit", "examples", "copy", name], cwd=tmp_path, env=env, check=True)

    command = ["bash", "-c", all_examples()[name].first_command]
    done = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)

    assert done.returncode == 0, done.stdout + done.stderr


def test_the_bill_is_a_document_of_cyclonedx(built: Built) -> None:
    """The members that the specification demands of a document of version 1.6, and their forms."""
    bill = built.bill

    assert bill.keys() == {
        "bomFormat", "specVersion", "serialNumber", "version", "metadata", "components", "dependencies",
    }  # fmt: skip
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.6", 1)
    assert SERIAL.fullmatch(bill["serialNumber"])
    about = bill["metadata"]
    assert about.keys() == {"timestamp", "tools", "component", "properties"}
    assert datetime.fromisoformat(about["timestamp"]).tzinfo is not None
    for tool in about["tools"]["components"]:
        assert tool.keys() == {"type", "name", "version"}
        assert tool["type"] == "application"
    for one in about["properties"]:
        assert one.keys() == {"name", "value"}
        assert all(isinstance(value, str) for value in one.values())


def test_every_component_has_the_members_and_forms_of_one(built: Built) -> None:
    bill = built.bill
    components = [bill["metadata"]["component"], *bill["components"]]

    for part in components:
        assert part.keys() - {"licenses"} == {"type", "bom-ref", "name", "version", "purl", "scope"}
        assert (part["type"], part["scope"]) == ("library", "required")
        assert PURL.fullmatch(part["purl"])
        for one in part.get("licenses", []):
            assert one.keys() == {"expression"}
    references = [part["bom-ref"] for part in components]
    assert len(references) == len(set(references))


def test_every_reference_leads_to_a_component(built: Built) -> None:
    bill = built.bill
    references = {part["bom-ref"] for part in [bill["metadata"]["component"], *bill["components"]]}
    refs = [entry["ref"] for entry in bill["dependencies"]]

    assert set(refs) == references
    assert len(refs) == len(references)
    for entry in bill["dependencies"]:
        assert entry.keys() == {"ref", "dependsOn"}
        assert set(entry["dependsOn"]) <= references
        assert len(entry["dependsOn"]) == len(set(entry["dependsOn"]))


def test_the_bill_has_what_the_package_declares_in_the_versions_that_are_installed(built: Built) -> None:
    project = tomllib.loads((built.clone / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.split(r"[^\w.-]", text)[0].lower().replace("_", "-") for text in project["dependencies"]}
    bill = built.bill
    own = bill["metadata"]["component"]
    versions = {part["name"]: part["version"] for part in bill["components"]}
    [direct] = [entry["dependsOn"] for entry in bill["dependencies"] if entry["ref"] == own["bom-ref"]]

    assert (own["name"], own["version"]) == (project["name"], project["version"])
    assert {reference.split("/")[1].split("@")[0] for reference in direct} == declared
    assert versions == {name: metadata.version(name) for name in versions}
    assert "multidict" in versions, "what aiohttp needs is left out"
    assert "pytest" not in versions, "extras are not needed"


def test_no_address_is_in_the_bill_or_the_checksums(built: Built) -> None:
    [bill] = built.first.glob("*.cdx.json")
    text = bill.read_text(encoding="utf-8") + (built.first / SUMS).read_text(encoding="ascii")

    assert "//" not in text
    assert not re.search(r"externalReferences|\bdistribution\b|\.(org|com|net|io)\b", text)
    assert str(ROOT) not in text
