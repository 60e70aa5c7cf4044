"""Which parts of a run each format carries: the story as every SDK exports it, and what is missing from it there.

`python -m tests.formats.format_coverage docs/importing-formats.md` writes the table on that page anew.
"""

from __future__ import annotations

import sys
from fnmatch import filter as filter_names
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
from tests.formats.errand import check_errand
from tests.formats.examples import examples
from tests.formats.samples import sample, samples_below
from tests.formats.story import PARTS, check_story

from replaykit.formats.core.registry import Imported
from replaykit.formats.core.source import Source
from replaykit.formats.files import import_source, import_trace
from replaykit.model.run import TraceRun

BEGIN = "<!-- What the tests find: python -m tests.formats.format_coverage docs/importing-formats.md -->"
END = "<!-- So far the tests. -->"
WORDS = {"type of the error": "error types", "models": "model names"}
"""What parts of the story are called on the page, where that is not what the tests call them."""

TYPE = "type of the error"
NO_RESPONSES = ("models", "system", "tokens", "times")
NO_REQUESTS = ("input", "messages", "system", "replayable")
NO_CONTENT = ("input", "output", "answers", "call ids", "messages", "system")


class Story(NamedTuple):
    """Files that tell the story: their format, what they are, and what they lack."""

    format: str
    files: str
    """A pattern below the samples; without one, the file is the format's example."""
    what: str
    lacks: tuple[str, ...] = ()
    note: str = ""
    """What the page says instead."""
    is_errand: bool = False
    """It tells of the errand instead, and lacks these parts of it."""


STORIES = (
    Story("run_log", "", "run log"),
    Story(
        "inspect", "inspect_ai/*", "log, `.eval` and `.json`", ("status", TYPE), "error types; a score is what fails"
    ),
    Story("otlp", "openinference/openai_chat_*.otlp.*", "OpenInference, OpenAI"),
    Story("otlp", "openinference/langgraph_agent.otlp.*", "OpenInference, LangGraph"),
    Story("otlp", "openllmetry/openai_workflow.otlp.*", "OpenLLMetry"),
    Story("otlp", "otel_genai/openai_v2_semconv_latest.otlp.*", "GenAI conventions, messages in attributes"),
    Story(
        "otlp",
        "otel_genai/openai_v2_legacy_events.otlp.*",
        "GenAI conventions, spans without their log records",
        (*NO_CONTENT, "replayable"),
    ),
    Story("otlp", "langfuse/sdk_otel_spans.otlp.*", "Langfuse SDK", (TYPE,)),
    Story("otlp", "pydantic_ai/instrument_v?.otlp.*", "Pydantic AI, versions 2 to 5", (TYPE,)),
    Story("otlp", "vercel_ai_sdk*/*Text.otlp.*", "Vercel AI SDK 6 and 7", (TYPE,)),
    Story("otel_spans", "openinference/openai_chat_*.sdk_*", "OpenInference, OpenAI"),
    Story("otel_spans", "openinference/langgraph_agent.sdk_*", "OpenInference, LangGraph"),
    Story("otel_spans", "openllmetry/openai_workflow.sdk_*", "OpenLLMetry"),
    Story("otel_spans", "otel_genai/openai_v2_semconv_latest.sdk_*", "GenAI conventions, messages in attributes"),
    Story(
        "otel_spans",
        "otel_genai/openai_v2_legacy_events.sdk_*",
        "GenAI conventions, spans without their log records",
        (*NO_CONTENT, "replayable"),
    ),
    Story("otel_spans", "langfuse/sdk_otel_spans.sdk_*", "Langfuse SDK", (TYPE,)),
    Story("otel_spans", "pydantic_ai/instrument_v?.sdk_*", "Pydantic AI, versions 2 to 5", (TYPE,)),
    Story("phoenix", "", "spans of the API"),
    Story("atif", "atif/*", "trajectory of Claude Code", is_errand=True),
    Story("langfuse", "", "trace of the API", (TYPE,)),
    Story("mlflow", "mlflow/trace_to_*.json", "trace"),
    Story("openai_agents", "openai_agents/chat_model_trace.json", "chat model", ("failure", TYPE, "replayable")),
    Story(
        "openai_agents",
        "openai_agents/responses_model_trace.json",
        "responses model",
        (*NO_CONTENT, "failure", TYPE, "replayable"),
    ),
    Story(
        "openai_agents",
        "openai_agents/ingest_post_body.json",
        "body of an export",
        (*NO_CONTENT, "failure", TYPE, "replayable"),
    ),
    Story(
        "langsmith",
        "langsmith/merged_runs_[12]_*",
        "`@traceable` functions",
        ("input", "tools", "results"),
        "input, tools and results as the model has them: they are those of the functions",
    ),
    Story("claude_code", "claude_code/session.jsonl", "session", is_errand=True),
    Story("claude_stream", "claude_code/stream_*", "stream", ("input", "replayable"), is_errand=True),
    Story("har", "", "calls of OpenAI chat"),
    Story("pydantic_ai", "pydantic_ai/all_messages.json", "messages", (TYPE,)),
    Story("ai_sdk", "vercel_ai_sdk/generateText_steps.json", "steps, version 6", (TYPE,)),
    Story("ai_sdk", "vercel_ai_sdk/streamText_fullStream_parts.json", "parts of a stream, version 6", (TYPE,)),
    Story("ai_sdk", "vercel_ai_sdk_v7/generateText_steps.json", "steps, version 7", (*NO_REQUESTS, TYPE)),
    Story(
        "ai_sdk",
        "vercel_ai_sdk_v7/streamText_fullStream_parts.json",
        "parts of a stream, version 7",
        (*NO_REQUESTS, "failure", TYPE),
    ),
    Story(
        "ai_sdk",
        "vercel_ai_sdk/generateText_response_messages.json",
        "`response.messages`, version 6",
        (*NO_REQUESTS, "models", TYPE, "tokens", "times"),
    ),
    Story("langchain", "langchain/messages_to_dict.json", "`messages_to_dict`", ("system", "times")),
    Story("langchain", "langchain/dumpd.json", "`dumpd`", ("system", "times")),
    Story("langchain", "langchain/model_dump.json", "`model_dump`", ("system", "times")),
    Story("langchain", "langchain/langgraph_state_history.json", "LangGraph state history", ("system",)),
    Story("langchain", "langchain/langgraph_stream_updates.json", "LangGraph updates", (*NO_REQUESTS, "times")),
    Story("langchain", "langchain/astream_events_v2.json", "`astream_events`", ("tokens",)),
    Story("openai_responses", "openai_responses/input_items.json", "items", (*NO_RESPONSES, TYPE)),
    Story(
        "openai_responses", "openai_agents/to_input_list.json", "`to_input_list()`", (*NO_RESPONSES, "failure", TYPE)
    ),
    Story("openai_responses", "openai_responses/request_response_pairs.json", "requests and responses", (TYPE,)),
    Story("anthropic", "anthropic_messages/messages.json", "messages", NO_RESPONSES),
    Story("anthropic", "anthropic_messages/request_response_pairs.json", "requests and responses", ("times",)),
    Story("gemini", "", "contents", ("call ids", *NO_RESPONSES)),
    Story("openai_chat", "openai_chat/messages.json", "messages", ("models", "tokens", "times")),
    Story("openai_chat", "langchain/openai_messages.json", "messages that LangChain converted", (*NO_RESPONSES, TYPE)),
    Story("openai_chat", "openai_chat/request_response_pairs.json", "requests and responses"),
    Story("openai_chat", "openai_chat/stream_chunks.json", "chunks of streams"),
)
"""In the order of detection."""


class Other(NamedTuple):
    """Files that tell something else: their format, how their runs ended, and what it is."""

    format: str
    files: str
    statuses: str
    what: str


OTHERS = (
    Other("a2a", "a2a/*", "error", "a task of a sub-agent that fails"),
    Other("ag_ui", "ag_ui/*", "error", "the story as far as a user's page is told, ended by an error"),
    Other("anthropic", "anthropic_messages/error.json", "error", "a refusal"),
    Other("anthropic", "anthropic_messages/stream_events.json", "error", "the first answer alone"),
    Other("langsmith", "langsmith/merged_runs_0_*", "timeout", "the story, ended by the tool's error"),
    Other("langsmith", "langsmith/runs_batch_bodies.json", "timeout success success", "all stories in one upload"),
    Other("langsmith", "langsmith/run_v1_real_abridged.json", "success", "a run without those below it"),
    Other("langsmith", "langsmith/webhook_payload_docs.json", "success", "a run as a rule sends it"),
    Other("langsmith", "langsmith/sdk_test_data/langsmith_js_*", "success", "one call of a model"),
    Other("anthropic_sessions", "langsmith/sdk_test_data/anthropic_*", "success", "a session with one tool"),
    Other("mlflow", "mlflow/trace_error.json", "timeout", "a tool alone"),
    Other("mlflow", "mlflow/trace_stream.json", "success", "one streamed answer"),
    Other("openai_agents", "openai_agents/max_turns_trace.json", "error", "the story, ended after a turn"),
    Other("openai_agents", "openai_agents/model_error_trace.json", "error", "a refusal"),
    Other("openai_agents", "openai_agents/tool_exception_trace.json", "error", "the story, ended by the tool's error"),
    Other("openai_chat", "openai_chat/error.json", "error", "a refusal"),
    Other("openai_chat", "vercel_ai_sdk_v7/generateText_response_messages.json", "success", "the last answer alone"),
    Other("openai_responses", "openai_responses/stream_events.json", "error", "the first answer alone"),
    Other("otlp", "openinference/*_tool_error.otlp.*", "timeout", "the story, ended by the tool's error"),
    Other("otel_spans", "openinference/*_tool_error.sdk_*", "timeout", "the story, ended by the tool's error"),
    Other("otlp", "openinference/*_and_error.otlp.*", "success error", "the first answer, and a refusal"),
    Other("otel_spans", "openinference/*_and_error.sdk_*", "success error", "the first answer, and a refusal"),
    Other("otlp", "openllmetry/stream_error_*.otlp.*", "success error success success success", "single answers"),
    Other("otel_spans", "openllmetry/stream_error_*.sdk_*", "success error success success success", "single answers"),
    Other("otlp", "pydantic_ai/errors_v2.otlp.*", "timeout error", "ended by a tool's error, and by a model's"),
    Other("otel_spans", "pydantic_ai/errors_v2.sdk_*", "timeout error", "ended by a tool's error, and by a model's"),
    Other("otlp", "vercel_ai_sdk*/error.otlp.*", "error", "a refusal"),
)
ONLY_LOGS = Other("otlp", "otel_genai/*.otlp_logs.*", "", "log records without their spans")


def story_in(row: Story, name: str) -> TraceRun:
    """The run that tells it: the first with calls, up to where a sample tells it once more."""
    found = imported(row, name)
    run = next(run for run in found.runs if run.tool_calls)
    again = run.llm_calls[3:4]
    return msgspec.structs.replace(run, events=run.events[: again[0].seq]) if again else run


def imported(row: Story | Other, name: str) -> Imported:
    """What a file is read as, whatever it is."""
    if name:
        return import_trace(sample(name))
    return import_source(Source(examples()[row.format], f"{row.format}.json"))


@cache
def _all_samples() -> list[str]:
    return samples_below(".")


def files_of(row: Story | Other) -> list[str]:
    """The samples of a row; an empty name is the format's example."""
    return filter_names(_all_samples(), row.files) if row.files else [""]


def check(row: Story, run: TraceRun) -> None:
    """The run is the story, or the errand, but for what the row says."""
    if row.is_errand:
        check_errand(run, is_asked="input" not in row.lacks)
    else:
        check_story(run, row.lacks)


def page_with_stories(page: str) -> str:
    """The page, with the part between the marks as the table has it."""
    before, _, rest = page.partition(BEGIN)
    _old, _, after = rest.partition(END)
    rows = [f"| `{row.format}` | {row.what} | {_lacking(row)} |" for row in STORIES]
    lines = "\n".join(["| format | what of it | what is not there |", "|---|---|---|", *rows])
    return f"{before}{BEGIN}\n\n{lines}\n\n{END}{after}"


def _lacking(row: Story) -> str:
    found = [WORDS.get(name, name) for name in PARTS if name in row.lacks and name != "replayable"]
    return row.note or ", ".join(found) or "nothing"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page_with_stories(file.read_text(encoding="utf-8")), encoding="utf-8")
