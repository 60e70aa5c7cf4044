"""NumPy's arrays and numbers are kept by type, shape and bytes."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from graphs_for_savers import Elsewhere
from test_values import held, put

from replaykit.errors import UsageError
from replaykit.integrations.langgraph import ReplayKitSaver
from replaykit.integrations.langgraph.values import KnownTypes

ARRAYS = [
    numpy.arange(6, dtype="int32").reshape(2, 3),
    numpy.asfortranarray(numpy.ones((2, 3))),
    numpy.array([[1.5, numpy.nan]], dtype="float16")[:, ::-1],
    numpy.array([], dtype="complex64"),
    numpy.array(7),
    numpy.array(["2024-01-01"], dtype="datetime64[ms]"),
    numpy.array(["a", "bcd"]),
    numpy.array([True, False]),
    numpy.zeros((2, 0, 3)),
    numpy.array([1], dtype=">i8"),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype.str} {array.shape}")
def test_an_array_comes_back_as_it_was(saver: ReplayKitSaver, array: Any) -> None:
    put(saver, 0, array=array, items=[array])
    put(saver, 1, array=array, items=[array, array.copy(), {"in": array}])

    for number in range(2):
        found = held(saver, number)
        for again in (found["array"], found["items"][0]):
            assert type(again) is numpy.ndarray
            assert (again.dtype, again.shape) == (array.dtype, array.shape)
            assert numpy.array_equal(again, array, equal_nan=array.dtype.kind in "fc")
            assert again.flags.writeable


def test_a_number_keeps_its_type(saver: ReplayKitSaver) -> None:
    numbers = [numpy.float64(0.1), numpy.int64(-3), numpy.bool_(True), numpy.float32(2), numpy.str_("a"), 0.1, -3]
    put(saver, 0, numbers=numbers, one=numpy.float64(0.5))

    found = held(saver, 0)

    assert [(type(number), number) for number in found["numbers"]] == [(type(n), n) for n in numbers]
    assert type(found["one"]) is numpy.float64


@pytest.mark.parametrize(
    "array", [numpy.array([print], dtype=object), numpy.array([(1, 2.0)], dtype="i4,f8")], ids=["objects", "records"]
)
def test_an_array_of_objects_is_refused(saver: ReplayKitSaver, array: Any) -> None:
    with pytest.raises(UsageError, match="cannot be kept"):
        put(saver, 0, array=array)
    assert saver.get_tuple({"configurable": {"thread_id": "t"}}) is None


@pytest.mark.parametrize(
    "content",
    [
        '["|O8", [1], {"$bytes": "AAAAAAAAAAA="}]',
        '["O", [1], {"$bytes": "AAAAAAAAAAA="}]',
        '["os.system", [1], {"$bytes": ""}]',
        '["<f8", [99999999], {"$bytes": ""}]',
        '["<f8", ["x"], {"$bytes": ""}]',
        '["<f8", [1], "text"]',
        "[1, 2]",
    ],
)
def test_a_hostile_array_is_an_error(content: str) -> None:
    for name in ("numpy.ndarray", "numpy.generic"):
        with pytest.raises(ValueError):
            KnownTypes().value(f'{{"$obj": ["{name}", {content}]}}'.encode())


def test_a_program_without_numpy_does_not_import_it(saver: ReplayKitSaver, elsewhere: Elsewhere) -> None:
    put(saver, 0, array=ARRAYS[0])
    program = """
import json, sys
from replaykit.errors import UsageError
from replaykit.integrations.langgraph import ReplayKitSaver
sys.modules.pop("numpy", None)
with ReplayKitSaver("threads.db") as saver:
    try: saver.get_tuple({"configurable": {"thread_id": "t"}})
    except UsageError as error: print(json.dumps([str(error), "numpy" in sys.modules]))
"""

    told, imported = elsewhere(program)

    assert "has not imported numpy" in told
    assert not imported
