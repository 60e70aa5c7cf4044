"""A framework's tests are collected only where it is installed."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec

NEEDS = {  # the tests' file: what it imports
    "test_agent_framework.py": ("agent_framework", "agent_framework.openai"),
    "test_chaos_pydantic_ai.py": ("pydantic_ai", "openai"),
    "test_claude_agent.py": ("claude_agent_sdk",),
    "test_crewai.py": ("crewai",),
    "test_google_adk.py": ("google.adk", "google.genai"),
    "test_langchain.py": ("langchain", "langchain_openai"),
    "test_llama_index.py": ("llama_index.core", "llama_index.llms.openai_like"),
    "test_openai_agents.py": ("agents", "openai"),
    "test_pydantic_ai.py": ("pydantic_ai", "openai"),
    "test_smolagents.py": ("smolagents", "openai"),
}


def missing(names: Iterable[str]) -> bool:
    """True when one of these packages is not installed."""
    try:
        return any(find_spec(name) is None for name in names)
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return True


collect_ignore = [test for test, names in NEEDS.items() if missing(names)]
collect_ignore += [] if len(collect_ignore) < len(NEEDS) else ["test_examples.py"]
