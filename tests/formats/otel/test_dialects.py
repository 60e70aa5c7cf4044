"""Dialects: the corners that the samples do not show."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.formats.core.json_text import decode_text, load_json
from replaykit.formats.core.messages import ConversationCache
from replaykit.formats.spans.dialects import DIALECTS, meaning_of
from replaykit.formats.spans.runs import run_of
from replaykit.formats.spans.span import UNSET, Meaning, Span, SpanEvent, SpanKind, unflattened
from replaykit.wire.model_calls import ModelAnswer, ToolUse


def read(name: str = "x", **attributes: Any) -> Meaning | None:
    """What a span means; `__` stands for a dot."""
    named = {key.replace("__", "."): value for key, value in attributes.items()}
    return meaning_of(Span(trace="a", id="1", name=name, attributes=named), ConversationCache())[0]


def meant(name: str = "x", **attributes: Any) -> Meaning:
    found = read(name, **attributes)
    assert found is not None
    return found


def test_a_span_of_no_dialect_means_nothing() -> None:
    assert read(http__method="GET", db__system="sqlite") is None


@pytest.mark.parametrize(
    ("attributes", "kind"),
    [
        ({"gen_ai__operation__name": "execute_tool"}, SpanKind.TOOL),
        ({"gen_ai__operation__name": "retrieval"}, SpanKind.TOOL),
        ({"gen_ai__operation__name": "invoke_workflow"}, SpanKind.AGENT),
        ({"gen_ai__operation__name": "generate_content"}, SpanKind.MODEL),
        ({"gen_ai__operation__name": "embeddings"}, SpanKind.NOTE),
        ({"gen_ai__tool__name": "t"}, SpanKind.TOOL),
        ({"gen_ai__system": "openai", "gen_ai__request__model": "m"}, SpanKind.MODEL),
        ({"openinference__span__kind": "RETRIEVER"}, SpanKind.TOOL),
        ({"openinference__span__kind": "chain"}, SpanKind.AGENT),
        ({"openinference__span__kind": "EMBEDDING"}, SpanKind.NOTE),
        ({"traceloop__span__kind": "task"}, SpanKind.AGENT),
        ({"langfuse__observation__type": "guardrail"}, SpanKind.NOTE),
        ({"ai__operationId": "ai.streamText.doStream"}, SpanKind.MODEL),
        ({"ai__operationId": "ai.generateObject"}, SpanKind.AGENT),
        ({"ai__operationId": "ai.embed.doEmbed"}, SpanKind.NOTE),
    ],
)
def test_the_kind_of_a_span_is_told_by_its_dialect(attributes: dict[str, Any], kind: SpanKind) -> None:
    assert meant(**attributes).kind is kind


def test_an_own_word_of_a_dialect_goes_before_genai() -> None:
    both = meant(openinference__span__kind="TOOL", tool__name="mine", gen_ai__operation__name="chat")

    assert (both.kind, both.name) == (SpanKind.TOOL, "mine")


def test_tokens_are_counted_by_their_old_names_as_well() -> None:
    found = meant(gen_ai__operation__name="chat", gen_ai__usage__prompt_tokens=3, gen_ai__usage__completion_tokens=4.0)

    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens) == (3, 4)
    assert meant(gen_ai__operation__name="chat", gen_ai__usage__input_tokens="many").usage is None


def test_parameters_and_tools_of_a_request_are_kept() -> None:
    found = meant(
        gen_ai__operation__name="chat",
        gen_ai__request__model="m",
        gen_ai__request__temperature=0.5,
        gen_ai__request__stop_sequences=["x"],
        gen_ai__tool__definitions='[{"name": "look"}]',
        gen_ai__system_instructions='[{"type": "text", "content": "be"}, {"type": "text", "content": "kind"}]',
    )

    assert found.parameters == {"stop_sequences": ["x"], "temperature": 0.5}
    assert (found.tools, found.system) == ([{"name": "look"}], "be\nkind")


def test_the_oldest_events_hold_a_whole_conversation_as_text() -> None:
    events = (
        SpanEvent(name="gen_ai.content.prompt", attributes={"gen_ai.prompt": '[{"role": "user", "content": "hi"}]'}),
        SpanEvent(
            name="gen_ai.content.completion",
            attributes={"gen_ai.completion": '[{"role": "assistant", "content": "ho"}]'},
        ),
    )
    found, _name = meaning_of(
        Span(trace="a", id="1", attributes={"gen_ai.system": "openai", "gen_ai.request.model": "m"}, happenings=events),
        ConversationCache(),
    )

    assert found is not None
    assert found.messages == [{"role": "user", "content": "hi"}]
    assert found.answer is not None
    assert found.answer.content == "ho"


def test_what_an_agent_was_given_is_what_came_before_its_first_answer() -> None:
    history = [
        {"role": "system", "parts": [{"type": "text", "content": "be kind"}]},
        {"role": "user", "parts": [{"type": "text", "content": "hi"}]},
        {"role": "assistant", "parts": [{"type": "text", "content": "ho"}]},
        {"role": "user", "parts": [{"type": "text", "content": "more"}]},
    ]

    assert meant(gen_ai__operation__name="invoke_agent", pydantic_ai__all_messages=json.dumps(history)).input == "hi"


def test_openinference_lists_are_in_the_order_of_their_numbers() -> None:
    flat = {
        f"llm.input_messages.{n}.message.{key}": v
        for n in range(12)
        for key, v in (("role", "user"), ("content", str(n)))
    }
    found = meant(**{"openinference__span__kind": "LLM", **dict(reversed(list(flat.items())))})

    assert [m["content"] for m in found.messages or ()] == [str(n) for n in range(12)]


def test_openinference_contents_of_several_parts_are_put_together() -> None:
    part = "llm.input_messages.0.message.contents"
    found = meant(
        **{
            "openinference__span__kind": "LLM",
            "llm.input_messages.0.message.role": "user",
            f"{part}.0.message_content.type": "text",
            f"{part}.0.message_content.text": "look at",
            f"{part}.1.message_content.type": "image",
            f"{part}.1.message_content.image.image.url": "x.png",
        }
    )

    assert found.messages == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "look at"}, {"type": "image_url", "image_url": {"url": "x.png"}}],
        }
    ]


def test_openinference_calls_of_tools_among_the_contents_are_told_once() -> None:
    answer = "llm.output_messages.0.message"
    calls = {
        f"{place}.tool_call.{name}": value
        for place in (f"{answer}.tool_calls.0", f"{answer}.contents.1")
        for name, value in (("id", "c1"), ("function.name", "look"), ("function.arguments", '{"at": "A-7"}'))
    }
    found = meant(
        **{
            "openinference__span__kind": "LLM",
            f"{answer}.role": "assistant",
            f"{answer}.contents.0.message_content.type": "text",
            f"{answer}.contents.0.message_content.text": "Let me look.",
            f"{answer}.contents.1.message_content.type": "tool_use",
            **calls,
        }
    )

    assert found.answer == ModelAnswer(
        content="Let me look.", tool_calls=(ToolUse(id="c1", name="look", arguments={"at": "A-7"}),)
    )


def test_openinference_decorators_write_the_schema_of_a_tool_beside_its_arguments() -> None:
    schema = '{"type": "object", "title": "look", "properties": {"at": {}}, "required": ["at"]}'
    given_as = {"input__value": '{"at": "A-7"}', "input__mime_type": "application/json"}

    found = meant(openinference__span__kind="TOOL", tool__name="look", tool__parameters=schema, **given_as)

    assert found.input == {"at": "A-7"}


def test_langfuse_spans_hold_requests_and_answers_of_any_api() -> None:
    asked = {"system": "Be kind.", "messages": [{"role": "user", "content": "q"}], "tools": [{"name": "look"}]}
    said = [{"type": "text", "text": "Let me look."}, {"type": "tool_use", "id": "c1", "name": "look", "input": {}}]
    observation = {
        "type": "generation",
        "model.name": "claude-5",
        "input": json.dumps(asked),
        "output": json.dumps(said),
    }

    found = meant(**{f"langfuse.observation.{name}": value for name, value in observation.items()})

    assert (found.name, found.system, found.tools) == ("claude-5", "Be kind.", [{"name": "look"}])
    assert found.answer == ModelAnswer(
        content="Let me look.", tool_calls=(ToolUse(id="c1", name="look", arguments={}),)
    )


def test_openinference_tools_give_arguments_and_documents_in_several_ways() -> None:
    tool = {"openinference__span__kind": "TOOL", "name": "look"}

    called = {"input__value": '{"args": [], "sanitize_inputs_outputs": true, "kwargs": {"q": 1}}'}
    assert meant(**tool, **called).input == {"q": 1}
    assert meant(**tool, tool__parameters='{"q": 2}').input == {"q": 2}
    assert meant(**tool, input__value="plain").input == "plain"
    assert meant(**tool, output__value="5", output__mime_type="application/json").output == 5
    failed = {"type": "tool", "data": {"content": "no", "status": "error", "tool_call_id": "a"}}
    found = meant(**tool, output__value=json.dumps(failed), output__mime_type="application/json")
    assert (found.output, found.tool_failed, found.call_id) == ("no", True, "a")
    documents = {"retrieval.documents.0.document.content": "page"}
    assert meant(**{"openinference__span__kind": "RETRIEVER", **documents}).output == [
        {"document": {"content": "page"}}
    ]


@pytest.mark.parametrize(
    ("given_", "tool", "agent"),
    [
        ({"args": [], "kwargs": {"q": 1}}, {"q": 1}, 1),
        ({"args": [1], "kwargs": {}}, [1], 1),
        ({"args": [1], "kwargs": {"q": 2}}, {"args": [1], "kwargs": {"q": 2}}, {"args": [1], "kwargs": {"q": 2}}),
        ({"args": [], "kwargs": {}}, {}, UNSET),
        ("text", "text", "text"),
    ],
)
def test_how_a_function_was_called_is_its_arguments(given_: Any, tool: Any, agent: Any) -> None:
    told = json.dumps(given_)

    assert meant(traceloop__span__kind="tool", traceloop__entity__input=told).input == tool
    assert meant(traceloop__span__kind="agent", traceloop__entity__input=told).input == agent


def test_the_ai_sdk_is_read_in_its_older_words_too() -> None:
    found = meant(
        ai__operationId="ai.generateText.doGenerate",
        ai__model__id="m",
        ai__usage__promptTokens=3,
        ai__usage__completionTokens=4,
        ai__response__toolCalls='[{"toolCallId": "a", "toolName": "look", "args": {"q": 1}}]',
        ai__settings__temperature=0,
    )

    assert found.usage is not None
    assert (found.usage.input_tokens, found.usage.output_tokens, found.parameters) == (3, 4, {"temperature": 0})
    assert found.answer is not None
    assert found.answer.tool_calls[0].arguments == {"q": 1}
    silent = meant(ai__operationId="ai.generateText.doGenerate")
    assert silent.answer is None, "it failed before it answered"


def test_json_text_is_read_where_it_is_json_beyond_doubt() -> None:
    assert load_json('{"a": 1}') == {"a": 1}
    assert load_json(" [1]") == [1]
    assert load_json('"quoted"') == "quoted"
    assert [load_json(text) for text in ("5", "true", "null", "{broken", "", "plain")] == [
        *("5", "true", "null", "{broken", "", "plain")
    ]
    assert [decode_text(text) for text in ("5", "true", "plain")] == [5, True, "plain"]
    assert load_json({"a": 1}) == {"a": 1}


def test_flattened_names_that_clash_lose_nothing_else() -> None:
    assert unflattened({"p.0.a": 1, "p.0": 2, "p.0.a.b": 3, "p.1.c": 4, "q": 5}, "p.") == [{"a": 1}, {"c": 4}]


_NAMES = st.sampled_from(
    [
        *("gen_ai.operation.name", "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.tool.call.arguments"),
        *(
            "gen_ai.prompt.0.role",
            "gen_ai.prompt.0",
            "gen_ai.completion.0.tool_calls.0.name",
            "gen_ai.tool.definitions",
        ),
        *("openinference.span.kind", "llm.input_messages.0.message", "llm.input_messages.0.message.role"),
        *("llm.output_messages.0.message.tool_calls.0.tool_call.function.name", "llm.tools.0.tool.json_schema"),
        *("input.value", "output.value", "output.mime_type", "llm.invocation_parameters", "llm.token_count.prompt"),
        *("traceloop.span.kind", "traceloop.entity.input", "langfuse.observation.type", "langfuse.observation.input"),
        *("langfuse.observation.usage_details", "ai.operationId", "ai.prompt", "ai.prompt.tools", "ai.toolCall.args"),
        *(
            "ai.response.toolCalls",
            "metadata",
            "error.type",
            "session.id",
            "final_result",
            "gen_ai.system_instructions",
        ),
    ]
)
_WORDS = st.sampled_from(
    [
        *(
            "chat",
            "execute_tool",
            "invoke_agent",
            "LLM",
            "TOOL",
            "AGENT",
            "CHAIN",
            "tool",
            "agent",
            "generation",
            "workflow",
        ),
        *(
            "ai.toolCall",
            "ai.generateText",
            "ai.generateText.doGenerate",
            "application/json",
            "[]",
            "{}",
            '[{"role": 5}]',
        ),
        *('{"messages": [[1]]}', '[{"parts": [{"type": "tool_call"}]}]', '{"langgraph_step": 1}', '{"args": [1]}'),
    ]
)
_VALUES = st.recursive(
    _WORDS | st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS | st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(st.dictionaries(_NAMES, _VALUES, max_size=8), min_size=1, max_size=4))
def test_no_attributes_whatever_break_a_dialect(given_: list[dict[str, Any]]) -> None:
    spans = [
        Span(trace="a" * 32, id=f"{number:016x}", parent=f"{number - 1:016x}" if number else "", attributes=attributes)
        for number, attributes in enumerate(given_)
    ]
    for dialect in DIALECTS:
        for span in spans:
            dialect.read(span, ConversationCache())

    assert run_of(spans) == run_of(reversed(spans))
