"""The public names of the package: their types are public, each has one name, and their examples run."""

from __future__ import annotations

import asyncio
import doctest
import inspect
import re
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

import replaykit as rk
from replaykit.cases.golden import golden_file, golden_of, write_golden

PAGE = Path(__file__).parents[1] / "docs" / "python.md"
PUBLIC = {name: getattr(rk, name) for name in rk.__all__}
TYPES = {name: getattr(rk, name) for name in rk._TYPES}
FUNCTIONS = {name: value for name, value in PUBLIC.items() if inspect.isfunction(value) and value.__name__ == name}
VALUES = ("replaykit.model.", "replaykit.travel.compare_result", "replaykit.cases.takes")
"""Modules of plain values: the types of their fields are public as well."""
INTERNAL = {
    "Edits.outcome_of": "how a fork applies them",
    "Edits.target": "how a fork applies them",
    "Pool.replay_one": "how `ci` and trials replay",
    "Run.__init__": "`rk.record` makes it",
    "Store.batches": "how forks and exports read a store",
    "Store.begin": "how a recording writes into a store",
    "Store.events_of": "how forks and exports read a store",
    "Store.read_tail": "how forks and exports read a store",
    "Store.readers": "how forks and exports read a store",
    "Store.share": "how LangGraph's saver writes into a store",
}
"""Methods that users do not call, and why they are there."""


def signatures() -> Iterator[tuple[str, Any]]:
    """Yield every public function, and every class with its constructor, methods and properties."""
    for name, value in PUBLIC.items():
        if inspect.isfunction(value):
            yield name, value
        elif isinstance(value, type):
            yield name, value
            for method, member in vars(value).items():
                function = getattr(member, "fget", None) or getattr(member, "__func__", member)
                is_public = not method.startswith("_") or method == "__init__"
                if is_public and inspect.isfunction(function) and f"{name}.{method}" not in INTERNAL:
                    yield f"{name}.{method}", function
    for name, value in TYPES.items():
        if issubclass(value, Struct) and value.__module__.startswith(VALUES):
            yield name, value


def types_in(hint: Any) -> Iterator[type]:
    """Yield each class of this package that a type is made of."""
    for part in typing.get_args(hint):
        for inner in part if isinstance(part, list) else [part]:
            yield from types_in(inner)
    origin = typing.get_origin(hint) or hint
    if isinstance(origin, type) and origin.__module__.startswith("replaykit."):
        yield origin


def test_every_type_in_a_public_signature_can_be_imported() -> None:
    importable = {*PUBLIC.values(), *TYPES.values()} - {rk.integrations, rk.middleware, rk.telemetry}
    missing: dict[str, str] = {}
    for where, value in signatures():
        namespace = vars(import_module(value.__module__))
        for name, hint in typing.get_type_hints(value, namespace).items():
            for found in () if name.startswith("_") else types_in(hint):
                if found not in importable:
                    missing.setdefault(f"{found.__module__}.{found.__qualname__}", f"{where}: {name}")

    assert missing == {}


def test_every_exception_and_internal_method_is_there() -> None:
    for name in INTERNAL:
        class_name, _, method = name.partition(".")
        assert method in vars(PUBLIC[class_name]), name


def test_a_type_has_the_name_of_its_class() -> None:
    assert PUBLIC.keys().isdisjoint(TYPES)
    for name, value in TYPES.items():
        assert value.__name__ == name or name == "StoreProtocol"


def test_the_page_has_every_second_name() -> None:
    aliases = {}
    for name, value in PUBLIC.items():
        for first_name, other in PUBLIC.items():
            if value is other and name != value.__name__ == first_name:
                aliases[name] = first_name

    table = dict(re.findall(r"^\| `rk\.(\w+)` \| `rk\.(\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE))

    assert table == aliases
    assert {"compare_runs", "fork_run", "record_tool", "resume_from_checkpoint"} <= aliases.keys()


def test_the_page_lists_every_public_name() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert [name for name in {*PUBLIC, *TYPES} if not re.search(rf"\brk\.{name}\b|`{name}`", page)] == []


def test_the_code_of_a_user_that_is_type_checked_uses_every_public_name() -> None:
    code = (Path(__file__).parent / "typing" / "api.py").read_text(encoding="utf-8")

    assert [name for name in {*PUBLIC, *TYPES} if not re.search(rf"\brk\.{name}\b", code)] == []


@rk.tool(effects="none")
def search_docs(query: str) -> dict[str, Any]:
    return {"docs": [query]}


def agent(question: str) -> str:
    return f"{len(search_docs(question)['docs'])} documents"


def changed_agent(question: str) -> str:
    return f"{len(search_docs(question.upper())['docs'])} documents"


@pytest.fixture
def names(own_directory: Path) -> Iterator[dict[str, Any]]:
    """What the examples name: a project with runs, a case and a golden trace."""
    question = "Where is my refund?"
    with rk.Store.open(".replaykit/store.db") as store:
        with rk.record("refunds", input=question, store=store) as good:
            with good.step("look up", state={"docs": 0}) as step:
                step.decide("search_docs")
                answer = agent(question)
                step.done({"docs": 1})
            good.output = answer
        with rk.record("plain", input=question, store=store) as plain:
            plain.output = agent(question)
        with pytest.raises(ValueError, match="lost"), rk.record("failed", input=question, store=store) as failed:
            agent(question)
            raise ValueError("lost")
        write_golden(golden_file(Path("fixtures/golden_traces"), "refunds"), golden_of(store.load(plain.id)))
        rk.scaffold(store.load(failed.id), "cases/refunds")
        Path("replaykit.yaml").write_text("replaykit: 1\nagent: {type: python, endpoint: 'my_agent:answer'}\n")
        yield {
            "agent": agent,
            "asyncio": asyncio,
            "changed_agent": changed_agent,
            "failed_id": failed.id,
            "rk": rk,
            "run_id": good.id,
            "store": store,
        }


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_example_of_a_public_function_runs(name: str, names: dict[str, Any]) -> None:
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(FUNCTIONS[name]) or "", names, name, None, None)
    told: list[str] = []

    result = doctest.DocTestRunner().run(test, out=told.append)

    assert result.attempted > 0
    assert result.failed == 0, "".join(told)
