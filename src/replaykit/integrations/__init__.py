"""Integrations: ReplayKit inside agent frameworks, each with an extra of its own.

Only the module of a framework imports it, on first use: `rk.integrations.langchain` needs LangChain, and
`rk.integrations` needs none. An integration translates the framework's tool calls for the seam and decides nothing.
"""

from __future__ import annotations

from replaykit.errors import install_hint

TYPE_CHECKING = False  # type checkers read it as True
if TYPE_CHECKING:
    from replaykit.integrations import agent_framework as agent_framework
    from replaykit.integrations import claude_agent as claude_agent
    from replaykit.integrations import crewai as crewai
    from replaykit.integrations import google_adk as google_adk
    from replaykit.integrations import langchain as langchain
    from replaykit.integrations import langgraph as langgraph
    from replaykit.integrations import llama_index as llama_index
    from replaykit.integrations import openai_agents as openai_agents
    from replaykit.integrations import pydantic_ai as pydantic_ai
    from replaykit.integrations import smolagents as smolagents

EXTRAS = {  # module: the extra that installs its framework
    "agent_framework": "agent-framework",
    "claude_agent": "claude-agent",
    "crewai": "crewai",
    "google_adk": "google-adk",
    "langchain": "langchain",
    "langgraph": "langgraph",
    "llama_index": "llama-index",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai",
    "smolagents": "smolagents",
}


def __getattr__(name: str) -> object:
    extra = EXTRAS.get(name)
    if extra is None:
        raise AttributeError(f"module 'replaykit.integrations' has no attribute {name!r}; it has: {', '.join(EXTRAS)}")
    from importlib import import_module  # noqa: PLC0415 (only names of the table above are ever imported)

    try:
        return import_module(f"replaykit.integrations.{name}")
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("replaykit."):
            raise
        raise ModuleNotFoundError(
            f"replaykit.integrations.{name} needs {error.name!r}, which is not installed. {install_hint(extra)}",
            name=error.name,
        ) from error


def __dir__() -> list[str]:
    return sorted(EXTRAS)
