"""The table of verbs says what the verbs say."""

from __future__ import annotations

from importlib import import_module

import pytest

from replaykit.cli import VERBS


@pytest.mark.parametrize("verb", VERBS)
def test_the_table_of_verbs_holds_the_first_line_of_each_verbs_help(verb: str) -> None:
    command = import_module(f"replaykit.cli.{verb}").command

    assert command.help.splitlines()[0] == VERBS[verb]
