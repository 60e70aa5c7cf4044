"""`replaykit fork`: go on from a step with something changed."""

from __future__ import annotations

from typing import Any

import click
from msgspec import UNSET

from replaykit.cli import candidate_options, fork_options, options
from replaykit.model.matching import ErrorSpec
from replaykit.model.values import thaw
from replaykit.travel.edits import Edits
from replaykit.travel.fork import fork


@click.command(name="fork", cls=candidate_options.PythonAgentOnly)
@click.argument("run_id", metavar="RUN")
@fork_options.step_and_agent
@options.repeated("--set", "keys", metavar="KEY=VALUE", help="Set a key of the state, to JSON or text.")
@click.option("--modify", metavar="JSON", help="Set keys of the state from an object.")
@click.option("--patch", metavar="JSON", help="Change the state by a JSON Patch.")
@click.option("--result", metavar="JSON", help="Replace the answer of the step's last call.")
@click.option("--response", "answer", metavar="JSON", help="Replace the answer of the step's last model call.")
@click.option("--error", metavar="TYPE[: MESSAGE]", help="Make the step's last call fail with this error.")
@click.option("--args", "arguments", metavar="JSON", help="Replace the arguments of the step's last tool call.")
@click.option("--input", "input_", metavar="JSON|TEXT", help="Replace the agent's input.")
@click.option("--tool", metavar="NAME", help="Which tool or model to change, if the step calls several.")
@fork_options.fork_verb
def command(run_id: str, step: str, fork_arguments: dict[str, Any], **changes: Any) -> Any:
    """Continue a run from one of its steps, with something changed.

    Makes a new run that is linked to its parent; the parent never changes. Exit 1 if the agent fails. To see what
    changed: replaykit compare

    \b
    replaykit fork 20260215-143200 --step step_3 --set max_retries=3 --agent my_agent:answer
    replaykit fork 20260215-143200 --step step_2 --result '{"docs": []}' --agent my_agent:answer
    replaykit fork 20260215-143200 --step step_2 --response '"call the user"' --agent my_agent:answer
    """
    _, result = fork(run_id, step, _edits(**changes), **fork_arguments)
    return result


def _edits(
    *,
    keys: tuple[str, ...],
    modify: str | None,
    patch: str | None,
    result: str | None,
    answer: str | None,
    error: str | None,
    arguments: str | None,
    input_: str | None,
    tool: str | None,
) -> Any:
    state = {}
    if modify is not None:
        state = thaw(options.json_of_kind("--modify", modify, dict))
    for pair in keys:
        name, equals, text = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"--set {pair!r}: write KEY=VALUE")
        state[name] = thaw(options.json_or_text(text))
    kind, _, message = (error or "").partition(":")
    if error is not None and not kind.strip():
        raise click.UsageError(f"--error {error!r}: write TYPE or TYPE: MESSAGE")
    return Edits(
        state=state,
        patch=() if patch is None else tuple(thaw(options.json_of_kind("--patch", patch, list))),
        result=_value(result),
        answer=_value(answer),
        error=None if error is None else ErrorSpec(type=kind.strip(), message=message.strip()),
        arguments=None if arguments is None else thaw(options.json_of_kind("--args", arguments, dict)),
        input=_value(input_),
        tool=tool,
    )


def _value(text: str | None) -> Any:
    if text is None:
        return UNSET
    return thaw(options.json_or_text(text))
