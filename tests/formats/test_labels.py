"""Labels: a run that somebody calls a failure is one."""

from __future__ import annotations

import pytest

from replaykit.formats.core.labels import (
    JUDGED,
    ExpectedCall,
    Label,
    as_it_ended,
    labelled,
    labels_of,
    only_reads,
)
from replaykit.model.events import ErrorInfo
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

FINE = TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw("Hi"), metadata_json=raw({"task": 1}))
CRASH = ErrorInfo(type="ValueError", message="no")


def test_a_label_that_says_failure_makes_the_run_one_and_says_why():
    label = Label(name="reward", value=0.0, failed=True, why="the order\nwas not cancelled")

    run = labelled(FINE, [label])

    assert run.status is RunStatus.ERROR
    assert run.error == ErrorInfo(type=JUDGED, message="reward is 0.0: the order was not cancelled")
    assert run.metadata["task"] == 1


def test_labels_come_back_as_they_went_in():
    labels = (
        Label(
            name="reward",
            value={"a": [1]},
            failed=True,
            why="so",
            expected_calls=(ExpectedCall(name="refund", arguments={"order": {"id": 7}}),),
            changing_tools=("refund",),
            expected_output=("7",),
            said_anywhere=True,
            criteria=("It is kind.",),
        ),
        Label(name="stars", value=5),
    )

    assert labels_of(labelled(FINE, labels)) == labels
    assert labels_of(FINE) == ()
    assert labelled(FINE, []) is FINE


def test_good_labels_change_no_status():
    run = labelled(FINE, [Label(name="reward", value=1.0)])

    assert (run.status, run.error) == (RunStatus.SUCCESS, None)


def test_a_run_that_failed_by_itself_keeps_its_own_error():
    crashed = TraceRun(id="r", status=RunStatus.TIMEOUT, error=CRASH)

    run = labelled(crashed, [Label(name="reward", value=0, failed=True)])

    assert (run.status, run.error) == (RunStatus.TIMEOUT, CRASH)
    assert as_it_ended(run) is run


def test_what_only_a_label_calls_a_failure_ended_well_by_itself():
    run = labelled(FINE, [Label(name="reward", value=0, failed=True)])

    ended = as_it_ended(run)

    assert (ended.status, ended.error) == (RunStatus.SUCCESS, None)
    assert labels_of(ended) == labels_of(run)


def test_something_else_under_that_name_is_no_label():
    assert labels_of(TraceRun(id="r", metadata_json=raw({"labels": ["urgent"]}))) == ()
    assert labels_of(TraceRun(id="r", metadata_json=raw({"labels": {"a": 1}}))) == ()


@pytest.mark.parametrize(
    ("tool", "reads"),
    [
        ("get_user_details", True),
        ("get", True),
        ("searchFlights", True),
        ("list-orders", True),
        ("calculate", True),
        ("think", True),
        ("getaway_booking", False),
        ("cancel_order", False),
        ("forget_user", False),
        ("checkout", False),
        ("", False),
    ],
)
def test_tools_that_only_read_are_known_by_their_verb(tool, reads):
    assert only_reads(tool) is reads
