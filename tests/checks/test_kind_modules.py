"""The table of kinds says the same as the modules that enter them."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

from replaykit import checks
from replaykit.checks.rule import ASSERTIONS, KIND_MODULES


@pytest.mark.parametrize("kind", KIND_MODULES)
def test_a_kind_comes_from_the_module_that_the_table_names(kind: str) -> None:
    assert ASSERTIONS.get(kind).__module__ == KIND_MODULES[kind]


def test_no_module_enters_a_kind_that_is_not_in_the_table() -> None:
    for module in pkgutil.iter_modules(checks.__path__, "replaykit.checks."):
        import_module(module.name)

    own = [rule for rule in ASSERTIONS.values() if rule.__module__.startswith("replaykit.checks.")]

    assert len(own) == len(KIND_MODULES)
    assert list(ASSERTIONS) == sorted({*KIND_MODULES, *ASSERTIONS})
