"""Advice on how to have a trace hold what models and tools were sent and answered, by the format of the trace."""

from __future__ import annotations

_AGAIN = "Then record the run again, or import a trace that was made with it."
_SPANS = (
    "Turn on the content of messages where the spans are made: OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true "
    "(OpenTelemetry; newer versions take SPAN_AND_EVENT), TRACELOOP_TRACE_CONTENT=true (OpenLLMetry), "
    "OPENINFERENCE_HIDE_INPUTS=false and OPENINFERENCE_HIDE_OUTPUTS=false (OpenInference), include_content=True "
    "(Pydantic AI), experimental_telemetry with recordInputs and recordOutputs (AI SDK)."
)
_LANGFUSE = (
    "Have Langfuse keep input and output: no `capture_input=False` or `capture_output=False` on @observe, no `mask` "
    "that empties them, and export with the fields `io`."
)
_LANGSMITH = (
    "Have LangSmith keep inputs and outputs: LANGSMITH_HIDE_INPUTS=false and LANGSMITH_HIDE_OUTPUTS=false, and export "
    "the runs with their inputs and outputs."
)
_MLFLOW = "Turn on autologging of the library that calls the model, or call `span.set_inputs` and `span.set_outputs`."
_AGENTS = "Have the Agents SDK keep them: OPENAI_AGENTS_DONT_LOG_MODEL_DATA=0 and `trace_include_sensitive_data=True`."
_LOGS = "Log each request beside its response, with all of its messages."
_ADVICE = {
    "langfuse": _LANGFUSE,
    "langsmith": _LANGSMITH,
    "mlflow": _MLFLOW,
    "openai_agents": _AGENTS,
    **dict.fromkeys(("openai_chat", "openai_responses", "anthropic", "gemini", "har"), _LOGS),
}

_OF_SPANS = ("otlp", "otel_spans", "phoenix", "ai_sdk", "pydantic_ai")


def capture_advice(format: str) -> str:
    """Return what to turn on so that a trace of this format holds the content of calls; everything for others."""
    if format in _ADVICE or format in _OF_SPANS:
        return f"{_ADVICE.get(format, _SPANS)} {_AGAIN}"
    return f"{_SPANS} {_LANGFUSE} {_LANGSMITH} {_AGAIN}"
