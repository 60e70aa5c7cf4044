"""A call with a wrong argument is answered with the right call, and not with an error from the inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

import replaykit as rk

WRONG = cast(Any, 3)
CALLS: dict[str, tuple[Callable[[], Any], str]] = {
    "rk.tool": (lambda: rk.tool(WRONG), "@rk.tool"),
    "rk.record": (lambda: rk.record(WRONG), "with rk.record"),
    "rk.replay": (lambda: rk.replay(WRONG, str), "rk.replay(store.load(run_id), agent)"),
    "rk.Tape.of": (lambda: rk.Tape.of(WRONG), "rk.Tape.of(store.load(run_id))"),
    "rk.step_events": (lambda: rk.step_events(WRONG), "rk.step_events(store.load(run_id))"),
    "save_checkpoint": (lambda: rk.CheckpointStore().save_checkpoint(WRONG), "rk.Checkpoint(run_id="),
    "A run's id": (lambda: rk.fork(WRONG, "step_1", agent=str), "the id, its beginning, or a name"),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_wrong_argument_is_answered_with_the_right_call(name: str) -> None:
    with rk.record("a run, so that there is a store"):
        pass
    call, right = CALLS[name]

    with pytest.raises(rk.UsageError) as caught:
        call()

    assert f"{name} cannot take 3 (int)" in str(caught.value)
    assert right in (caught.value.hint or "")
