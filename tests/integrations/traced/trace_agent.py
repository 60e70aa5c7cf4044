"""Run an agent for real, with a model that follows a script, and have an exporter of some vendor trace it.

usage: python trace_agent.py MODULE EXPORTER FILE, with MODEL_URL set
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

QUESTION = "What was I charged on account A-7?"


def untraced(agent: Any, _file: Path) -> str:
    """The gateway logs; nothing is done here."""
    return str(agent.answer(QUESTION))


def with_langsmith(agent: Any, _file: Path) -> str:
    """LangSmith's wrapper of the SDK, which sends what it sees to the collector."""
    import langsmith
    from langsmith import wrappers

    client = _langsmith_client()
    name = agent.__name__.partition("_")[0]
    wrap: Any = {"openai": wrappers.wrap_openai, "anthropic": wrappers.wrap_anthropic, "gemini": wrappers.wrap_gemini}[
        name
    ]
    agent.STREAMED = False  # LangSmith's wrapper cannot read the streams of every version of Anthropic's SDK
    agent.wrapped = lambda sdk: wrap(sdk, tracing_extra={"client": client})
    agent.lookup_charge = langsmith.traceable(run_type="tool", name="lookup_charge", client=client)(agent.lookup_charge)
    as_input = {"process_inputs": lambda given: {"input": given["question"]}}
    answer = langsmith.traceable(name="billing", client=client, **as_input)(agent.answer)
    with langsmith.tracing_context(enabled=True):
        said = str(answer(QUESTION))
    client.flush()
    return said


def with_langchain_tracer(agent: Any, _file: Path) -> str:
    """LangChain's tracer for LangSmith."""
    from langchain_core.tracers.langchain import LangChainTracer

    client = _langsmith_client()
    said = str(agent.answer(QUESTION, config={"callbacks": [LangChainTracer(client=client)]}))
    client.flush()
    return said


def with_agents_tracing(agent: Any, file: Path) -> str:
    """The tracing of the OpenAI Agents SDK, into a file."""
    from agents import set_trace_processors
    from agents.tracing.processors import BatchTraceProcessor, TracingExporter

    class ToFile(TracingExporter):
        def __init__(self) -> None:
            self.items: list[Any] = []

        def export(self, items: Any) -> None:
            self.items += [exported for item in items if (exported := item.export()) is not None]

    exporter = ToFile()
    processor = BatchTraceProcessor(exporter)
    set_trace_processors([processor])
    said = str(agent.answer(QUESTION))
    processor.force_flush()
    file.write_text(json.dumps({"data": exporter.items}))
    return said


def with_agents_in_langsmith(agent: Any, _file: Path) -> str:
    """LangSmith's processor for the traces of the Agents SDK."""
    from agents import set_trace_processors
    from langsmith.wrappers import OpenAIAgentsTracingProcessor

    client = _langsmith_client()
    set_trace_processors([OpenAIAgentsTracingProcessor(client=client)])
    said = str(agent.answer(QUESTION))
    client.flush()
    return said


def with_spans(agent: Any, file: Path) -> str:
    """Spans of OpenTelemetry that Pydantic AI makes, as the SDK writes them."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
    from pydantic_ai import Agent
    from pydantic_ai.models.instrumented import InstrumentationSettings

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    Agent.instrument_all(InstrumentationSettings(tracer_provider=provider))
    said = str(agent.answer(QUESTION))
    file.write_text("\n".join(json.dumps(json.loads(span.to_json())) for span in exporter.get_finished_spans()))
    return said


def with_genai_spans(agent: Any, file: Path) -> str:
    """Spans of OpenTelemetry with the attributes that its conventions for models name, around Gemini's client."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("billing")
    real_lookup, real_answer = agent.lookup_charge, agent.answer

    def wrapped(client: Any) -> Any:
        real = client.models.generate_content

        def generate_content(*, model: str, contents: Any, config: Any) -> Any:
            with tracer.start_as_current_span(f"chat {model}") as span:
                span.set_attribute("gen_ai.operation.name", "chat")
                span.set_attribute("gen_ai.request.model", model)
                instructions = [{"type": "text", "content": config.system_instruction}]
                span.set_attribute("gen_ai.system_instructions", json.dumps(instructions))
                span.set_attribute("gen_ai.input.messages", json.dumps([_genai(one) for one in contents]))
                response = real(model=model, contents=contents, config=config)
                said = _genai(response.candidates[0].content) | {"finish_reason": "stop"}
                span.set_attribute("gen_ai.output.messages", json.dumps([said]))
                return response

        client.models.generate_content = generate_content
        return client

    def lookup_charge(**arguments: Any) -> Any:
        with tracer.start_as_current_span("execute_tool lookup_charge") as span:
            span.set_attribute("gen_ai.operation.name", "execute_tool")
            span.set_attribute("gen_ai.tool.name", "lookup_charge")
            span.set_attribute("gen_ai.tool.call.arguments", json.dumps(arguments))
            result = real_lookup(**arguments)
            span.set_attribute("gen_ai.tool.call.result", json.dumps(result))
            return result

    agent.wrapped, agent.lookup_charge = wrapped, lookup_charge
    with tracer.start_as_current_span("invoke_agent billing") as span:
        span.set_attribute("gen_ai.operation.name", "invoke_agent")
        said = str(real_answer(QUESTION))
    file.write_text("\n".join(json.dumps(json.loads(span.to_json())) for span in exporter.get_finished_spans()))
    return said


def _genai(content: Any) -> dict[str, Any]:
    """A content of Gemini as a message of the conventions."""
    parts = []
    for part in content.parts:
        if part.function_call:
            call = part.function_call
            parts.append({"type": "tool_call", "id": call.id, "name": call.name, "arguments": call.args})
        elif part.function_response:
            result = part.function_response
            parts.append({"type": "tool_call_response", "id": result.id, "response": result.response})
        else:
            parts.append({"type": "text", "content": part.text})
    return {"role": "assistant" if content.role == "model" else content.role, "parts": parts}


def with_openinference(agent: Any, file: Path) -> str:
    """Spans of OpenInference's instrumentation of the SDK or of LangChain, as the SDK of OpenTelemetry writes them."""
    from openinference.instrumentation import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    vendor = agent.__name__.partition("_")[0]
    _openinference_instrumentor(vendor).instrument(tracer_provider=provider)
    if vendor == "langgraph":  # its tools and the agent are spans of LangChain's
        said = str(agent.answer(QUESTION))
    else:
        tracer = provider.get_tracer("billing")
        agent.lookup_charge = tracer.tool(name="lookup_charge")(agent.lookup_charge)
        said = str(tracer.agent(name="billing")(agent.answer)(QUESTION))
    file.write_text(json.dumps([json.loads(span.to_json()) for span in exporter.get_finished_spans()]))
    return said


def _openinference_instrumentor(vendor: str) -> Any:
    from openinference.instrumentation.anthropic import AnthropicInstrumentor
    from openinference.instrumentation.langchain import LangChainInstrumentor
    from openinference.instrumentation.openai import OpenAIInstrumentor

    kinds = {"openai": OpenAIInstrumentor, "anthropic": AnthropicInstrumentor, "langgraph": LangChainInstrumentor}
    return kinds[vendor]()


def with_langfuse(agent: Any, _file: Path) -> str:
    """Langfuse's SDK, which sends spans to the collector: its own wrapper of OpenAI, its handler of LangChain's
    callbacks, and for Anthropic generations made by hand, as its guide shows."""
    from langfuse import Langfuse, observe

    client = Langfuse(public_key="pk-lf-none", secret_key="sk-lf-none", base_url=os.environ["MODEL_URL"])
    vendor = agent.__name__.partition("_")[0]
    if vendor == "langgraph":
        from langfuse.langchain import CallbackHandler

        said = str(agent.answer(QUESTION, config={"callbacks": [CallbackHandler()]}))
    else:
        if vendor == "openai":
            from langfuse import openai as traced_openai

            agent.openai = traced_openai
        else:
            agent.ask = _generation_around(agent.ask, client)
        agent.lookup_charge = observe(as_type="tool", name="lookup_charge")(agent.lookup_charge)
        said = str(observe(as_type="agent", name="billing")(agent.answer)(QUESTION))
    client.flush()
    client.shutdown()
    return said


def _generation_around(ask: Any, client: Any) -> Any:
    def asked(sdk: Any, **request: Any) -> Any:
        given = {name: request[name] for name in ("system", "messages", "tools")}
        parameters = {"max_tokens": request["max_tokens"]}
        settings = {"name": "messages", "input": given, "model": request["model"], "model_parameters": parameters}
        with client.start_as_current_observation(as_type="generation", **settings) as generation:
            message = ask(sdk, **request)
            generation.update(output=[block.to_dict() for block in message.content])
            return message

    return asked


def with_messages(agent: Any, file: Path) -> str:
    """The messages of a run, as Pydantic AI dumps them."""
    result = agent.run(QUESTION)
    file.write_bytes(result.all_messages_json())
    return str(result.output)


def _langsmith_client() -> Any:
    from langsmith import Client

    settings = {
        "use_multipart_endpoint": False,
        "size_limit": 100,
        "size_limit_bytes": 1_000_000,
        "scale_up_nthreads_limit": 1,
        "scale_up_qsize_trigger": 1000,
        "scale_down_nempty_trigger": 4,
    }
    return Client(api_url=os.environ["MODEL_URL"], api_key="none", info={"batch_ingest_config": settings})


EXPORTERS: dict[str, Callable[[Any, Path], str]] = {
    "gateway": untraced,
    "langsmith": with_langsmith,
    "langchain": with_langchain_tracer,
    "agents": with_agents_tracing,
    "agents-langsmith": with_agents_in_langsmith,
    "genai-spans": with_genai_spans,
    "spans": with_spans,
    "messages": with_messages,
    "openinference": with_openinference,
    "phoenix": with_openinference,
    "langfuse": with_langfuse,
    "langfuse-otlp": with_langfuse,
}

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    module, exporter, file = sys.argv[1:]
    print(EXPORTERS[exporter](importlib.import_module(module), Path(file)))
