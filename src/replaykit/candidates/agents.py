"""Build a candidate from the agent of a configuration."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from replaykit.candidates.attempt import Candidate
from replaykit.errors import UsageError
from replaykit.project.agent import AgentConfig, AgentType
from replaykit.project.project import Project
from replaykit.project.template import Expanded, UnsetVariable, expand

if TYPE_CHECKING:
    from replaykit.programs.launch_options import LaunchOptions


def candidate_of(
    project: Project,
    environment: Mapping[str, str] = os.environ,
    *,
    launch_options: LaunchOptions | None = None,
    reuses_workers: bool = False,
) -> Candidate:
    """Return the candidate for the project's agent, which is not imported or contacted before the first case.

    `launch_options` apply to a command, and `reuses_workers` to a Python agent.
    """
    agent = project.agent
    if agent is None:
        hint = "Add `agent:` to it, or name one: --agent MODULE:FUNCTION, --endpoint URL, --runner-cmd CMD"
        raise UsageError(f"{project.file} names no agent", hint=hint)
    if reuses_workers and agent.type in (AgentType.HTTP, AgentType.COMMAND):
        raise UsageError(f"only Python agents have workers; this one is of type {agent.type.value}")
    if agent.type is AgentType.HTTP:
        return _http(project, agent, environment)
    if agent.type is AgentType.COMMAND:
        from replaykit.candidates.command import CommandCandidate  # noqa: PLC0415 (import only what this type of agent needs)

        return CommandCandidate(agent.endpoint if agent.words is None else agent.words, launch_options)
    from replaykit.candidates.worker_protocol import WorkerJob  # noqa: PLC0415
    from replaykit.candidates.workers import WorkerCandidate  # noqa: PLC0415

    directory = str(project.directory.absolute())
    return WorkerCandidate(
        WorkerJob(
            spec=agent.endpoint,
            sort=agent.type.value,
            reset=agent.reset_function,
            directories=(directory,),
            reuses=reuses_workers,
        )
    )


def default_jobs(project: Project) -> int:
    """Return the default number of parallel cases: the configured one, or for Python agents one per core.

    An HTTP agent with a reset endpoint has one shared state, so its cases run one at a time.
    """
    agent = project.agent
    if agent is None or (agent.type is AgentType.HTTP and agent.reset_endpoint is not None):
        return 1
    if project.concurrency is not None:
        return project.concurrency
    if agent.type in (AgentType.PYTHON, AgentType.LANGCHAIN):
        from replaykit.candidates.pool import cores  # noqa: PLC0415 (slow to import)

        return cores()
    return 1


def _only(names: Iterable[str], environment: Mapping[str, str]) -> dict[str, str]:
    return {name: environment[name] for name in names if name in environment}


def _http(project: Project, agent: AgentConfig, environment: Mapping[str, str]) -> Candidate:
    from replaykit.candidates.http_agent import AgentAddress, HttpAgent  # noqa: PLC0415

    if project.variables is None:
        allowed = environment
    else:
        allowed = _only(project.variables, environment)

    def filled(text: str, *place: str) -> Expanded:
        try:
            return expand(text, allowed)
        except UnsetVariable as error:
            if project.variables is not None and error.name not in project.variables:
                message = f"agent.{'.'.join(place)}: {error.name} is not among the variables that may be filled in"
                hint = f"List it in {project.file}{project.files.where}: variables: [{error.name}]"
                raise project.error(message, ("agent", *place), hint=hint) from None
            hint = f"Set it, or write a default: ${{{error.name}:-...}}"
            raise project.error(f"agent.{'.'.join(place)}: {error}", ("agent", *place), hint=hint) from None

    headers = tuple((name, filled(text, "headers", name)) for name, text in agent.headers)
    if agent.reset_endpoint is None:
        reset = None
    else:
        reset = filled(agent.reset_endpoint, "reset_endpoint")
    return HttpAgent(agent, AgentAddress(endpoint=filled(agent.endpoint, "endpoint"), headers=headers, reset=reset))
