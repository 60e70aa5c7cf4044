"""The advice for machines that offer less than full isolation, by the settings that are found on them."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from replaykit.doctor.isolation import KernelSettings, advice, describe_support, elsewhere, read_settings
from replaykit.doctor.results import ItemState
from replaykit.isolation import Support

NAMESPACES = dict.fromkeys(("user", "mount", "net", "pid", "overlay"), "Operation not permitted")
NO_NAMESPACES = Support(architecture="x86_64", landlock=6, missing=NAMESPACES)
NEW = "6.8.0-45-generic"
NO_CAUSE = "No usual cause was found. A security module or a sandbox around this process may refuse it."
CAUSES = ("userns_clone", "apparmor_restrict", "max_user_namespaces", "seccomp=", "lies over", "too old", "No usual")
FILES = {
    "release": "proc/sys/kernel/osrelease",
    "user_namespaces": "proc/sys/kernel/unprivileged_userns_clone",
    "apparmor": "proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "most": "proc/sys/user/max_user_namespaces",
    "status": "proc/self/status",
    "modules": "sys/kernel/security/lsm",
    "docker": ".dockerenv",
    "podman": "run/.containerenv",
}


def machine(root: Path, **settings: str) -> KernelSettings:
    """The settings of a machine with these files, read from them."""
    for name, text in {"release": NEW, **settings}.items():
        path = root / FILES[name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return replace(read_settings(root), is_root=False)


@pytest.fixture(autouse=True)
def outside_of_containers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.delenv("container", raising=False)


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({"user_namespaces": "0"}, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ({"apparmor": "1"}, "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"),
        ({"most": "0"}, "sudo sysctl -w user.max_user_namespaces=15000"),
        ({"docker": ""}, "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"),
        ({"podman": ""}, "--security-opt seccomp=unconfined --security-opt systempaths=unconfined"),
        ({"status": "Seccomp:\t2"}, "A system call filter applies to this process"),
        ({"release": "5.4.0-190-generic"}, "Linux 5.4.0-190-generic is too old: full isolation needs 5.11 or newer"),
        ({}, "No usual cause was found"),
    ],
)
def test_each_usual_cause_has_its_advice_and_no_other(tmp_path: Path, settings: dict[str, str], command: str) -> None:
    text = "\n".join(advice(NO_NAMESPACES, machine(tmp_path, **settings)))

    assert command in text
    assert {cause for cause in CAUSES if cause in text} == {cause for cause in CAUSES if cause in command}


def test_settings_that_leave_root_alone_are_not_named_to_root(tmp_path: Path) -> None:
    settings = replace(machine(tmp_path, user_namespaces="0", apparmor="1"), is_root=True)

    assert advice(NO_NAMESPACES, settings) == [NO_CAUSE]


def test_settings_that_do_no_harm_are_not_named(tmp_path: Path) -> None:
    settings = machine(tmp_path, user_namespaces="1", apparmor="0", most="63000", status="Seccomp:\t0")

    assert advice(NO_NAMESPACES, settings) == [NO_CAUSE]


def test_a_machine_without_landlock_is_told_how_to_switch_it_on(tmp_path: Path) -> None:
    without = Support(architecture="x86_64", landlock=0, missing=NAMESPACES)

    assert advice(without, machine(tmp_path, modules="capability,yama")) == [
        "Landlock is switched off. Start the kernel with: lsm=landlock,capability,yama"
    ]


def test_the_level_of_each_channel_is_told(tmp_path: Path) -> None:
    old_landlock = Support(architecture="x86_64", landlock=3, missing=NAMESPACES)

    isolation, item = describe_support(old_landlock, machine(tmp_path, user_namespaces="0"))

    assert isolation.level == "landlock"
    assert isolation.channels["signals"] == "process"
    assert item.state is ItemState.NOTE
    assert "signals process" in item.detail
    assert "user namespaces: Operation not permitted" in item.detail


@pytest.mark.parametrize(("platform", "way"), [("darwin", "a Linux virtual machine or container"), ("win32", "WSL 2")])
def test_other_systems_are_told_that_only_the_guards_hold(platform: str, way: str) -> None:
    isolation, item = elsewhere(platform)

    assert isolation.level == "process"
    assert "only guards inside Python and Node isolate a replay" in item.detail
    assert way in item.advice[0]


def test_another_processor_is_named(tmp_path: Path) -> None:
    other = Support(architecture="riscv64", landlock=0, missing={"architecture": "isolation needs Linux on x86_64"})

    assert "x86_64 or aarch64" in advice(other, machine(tmp_path))[0]
