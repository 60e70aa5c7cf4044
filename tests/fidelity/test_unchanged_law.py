"""The unchanged law: a failing agent that is recorded and replayed as it is, is never called fixed.

Here is a part of the collection, in process and by the command line; `make fidelity` runs all of it.
"""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from tests.fidelity.harness import Agent, Trial, collection, tried, tried_in_process
from tests.matrix import sampled

SENTENCES = {
    "a timeout of future.result fires again": "timeouts:future_result",
    "a timeout of wait_for around a thread fires again": "timeouts:wait_for_thread",
    "a timeout of asyncio.wait leaves the same tasks pending": "timeouts:wait_with_timeout",
    "a shielded call is late again": "timeouts:shielded",
    "the first completed task is the same": "races:first_completed",
    "a hedged request is hedged again, and won by the same": "races:hedged",
    "equal questions of two tasks get their own answers": "races:equal_questions",
    "model calls over HTTP complete in the same order": "over_http:answers_as_they_come",
    "an e-mail address in the input still looks like one": "redaction:email_in_the_input",
    "an e-mail address still has a domain": "redaction:domain_of_an_address",
    "a phone number still has its digits": "redaction:digits_of_a_phone_number",
    "a card number still passes the Luhn check": "redaction:luhn_of_a_card",
    "an enum member is the member": "values:enum_member",
    "a dataclass is the dataclass": "values:dataclass_method",
    "a named tuple is the named tuple": "values:named_tuple",
    "a pydantic model is the model": "values:pydantic_model",
    "a NumPy bool inside of a result is as false as it was": "values:numpy_bool",
    "a counter in a file that the recording changed is in doubt": "leftovers:counter_file",
    "a database that the recording changed is in doubt": "leftovers:sqlite_cache",
    "a file that a tool wrote is in doubt": "leftovers:file_of_a_tool",
    "an object that a tool changed is in doubt": "leftovers:object_of_a_tool",
    "a forked pool is served and counted": "processes:forked_pool",
}
BY_COMMAND = (
    ("timeouts:future_result", "agent"),
    ("values:enum_member", "program"),
    ("leftovers:lock_file", "program"),
)


@functools.cache
def in_process(module: str) -> dict[str, Trial]:
    """The agents of a module that have a sentence here, recorded and replayed in one process."""
    agents = [Agent(*name.split(":")) for name in SENTENCES.values() if name.startswith(f"{module}:")]
    with tempfile.TemporaryDirectory(prefix="fidelity-") as directory:
        return {str(trial.agent): trial for trial in tried_in_process(agents, Path(directory))}


@sampled("sentence", SENTENCES, count=4)
def test_the_unchanged_law(sentence: str) -> None:
    agent = SENTENCES[sentence]

    assert in_process(agent.partition(":")[0])[agent].breaches == []


@sampled(("agent", "way"), BY_COMMAND, count=1, start=1)
def test_the_unchanged_law_by_command(agent: str, way: str, tmp_path: Path) -> None:
    assert tried(Agent(*agent.split(":")), way, tmp_path).breaches == []


def test_the_collection_has_at_least_sixty_agents() -> None:
    agents = {str(agent) for agent in collection()}

    assert len(agents) >= 60
    assert set(SENTENCES.values()) <= agents
