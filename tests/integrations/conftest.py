"""What runs against other people's packages is collected only where they are installed."""

from __future__ import annotations

import os
from importlib.util import find_spec


def _installed(*names: str) -> bool:
    try:
        return all(find_spec(name) for name in names)
    except ModuleNotFoundError:  # the parent of a dotted name is missing
        return False


collect_ignore = [] if _installed("openai", "anthropic", "google.genai") else ["test_wire_sdks.py", "test_http_sdks.py"]
collect_ignore += [] if _installed("openai", "anthropic", "google.genai", "ollama") else ["test_traced_sdks.py"]
collect_ignore += [] if _installed("mcp", "fastmcp") else ["test_mcp.py", "test_chaos_mcp.py"]
collect_ignore += [] if _installed("openai", "anthropic") else ["test_python_agent.py", "test_chaos_sdks.py"]
collect_ignore += [] if os.environ.get("REPLAYKIT_NODE_MODULES") else ["test_node_agent.py"]
collect_ignore += [] if _installed("fastapi", "uvicorn", "flask", "gunicorn", "waitress") else ["test_http_agents.py"]
TRACED = ("openai", "anthropic", "google.genai", "langgraph", "langchain_openai", "agents", "pydantic_ai", "langsmith")
collect_ignore += [] if _installed(*TRACED) else ["test_trace_to_green.py"]
collect_ignore += [] if _installed("opentelemetry.exporter.otlp.proto.http") else ["test_otel_sdk.py"]
