"""One conversation has one key, in whichever API's form it is sent or traced; another one has another."""

from __future__ import annotations

import base64
import hashlib
import json
from typing import Any

import pytest

from replaykit.wire.conversation import JOINERS, ComparedFields, Conversation, ConversationReader

Body = dict[str, Any]
ORDER = {"id": "W1", "total": 59.0}
USER = {"name": "Ana"}


def spec(name: str, text: str, **properties: str) -> Body:
    return {"name": name, "description": text, "properties": properties}


SPECS = (spec("get_order", "Get an order.", order_id="string"), spec("get_user", "Get a user.", user_id="string"))


def schema(tool: Body, **more: Any) -> Body:
    members = {name: {"type": kind, **more} for name, kind in tool["properties"].items()}
    return {"type": "object", "properties": members, "required": list(members)}


def chat() -> Body:
    calls = [
        {"id": "call_1", "type": "function", "function": {"name": "get_order", "arguments": '{"order_id": "W1"}'}},
        {"id": "call_2", "type": "function", "function": {"name": "get_user", "arguments": '{"user_id": "u9"}'}},
    ]
    named = [{"name": t["name"], "description": t["description"], "parameters": schema(t)} for t in SPECS]
    return {
        "model": "gpt-5",
        "temperature": 0,
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Refund W1"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "call_1", "content": json.dumps(ORDER)},
            {"role": "tool", "tool_call_id": "call_2", "content": json.dumps(USER)},
        ],
        "tools": [{"type": "function", "function": tool} for tool in named],
    }


def responses() -> Body:
    return {
        "model": "gpt-5",
        "instructions": "Be kind.",
        "input": [
            {"role": "user", "content": [{"type": "input_text", "text": "Refund W1"}]},
            {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm."}]},
            {"type": "function_call", "call_id": "c1", "name": "get_order", "arguments": '{"order_id":"W1"}'},
            {"type": "function_call", "call_id": "c2", "name": "get_user", "arguments": '{"user_id":"u9"}'},
            {"type": "function_call_output", "call_id": "c2", "output": json.dumps(USER)},
            {"type": "function_call_output", "call_id": "c1", "output": json.dumps(ORDER)},
        ],
        "tools": [
            {"type": "function", "name": t["name"], "description": t["description"], "parameters": schema(t)}
            | {"strict": True}
            for t in reversed(SPECS)
        ],
    }


def anthropic() -> Body:
    uses = [
        {"type": "tool_use", "id": "toolu_1", "name": "get_order", "input": {"order_id": "W1"}},
        {"type": "tool_use", "id": "toolu_2", "name": "get_user", "input": {"user_id": "u9"}},
    ]
    results = [
        {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": json.dumps(ORDER)}]},
        {"type": "tool_result", "tool_use_id": "toolu_2", "content": json.dumps(USER)},
    ]
    return {
        "model": "claude",
        "max_tokens": 100,
        "system": [{"type": "text", "text": "Be kind.", "cache_control": {"type": "ephemeral"}}],
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "Refund W1"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm.", "signature": "x"}, *uses]},
            {"role": "user", "content": results},
        ],
        "tools": [{"name": t["name"], "description": t["description"], "input_schema": schema(t)} for t in SPECS],
    }


def gemini() -> Body:
    calls = [
        {"functionCall": {"name": "get_order", "args": {"order_id": "W1"}}, "thoughtSignature": "x"},
        {"functionCall": {"name": "get_user", "args": {"user_id": "u9"}}},
    ]
    results = [
        {"functionResponse": {"name": "get_order", "response": {"result": ORDER}}},
        {"functionResponse": {"name": "get_user", "response": {"output": USER}}},
    ]
    declared = [{"name": t["name"], "description": t["description"], "parameters": upper(schema(t))} for t in SPECS]
    return {
        "systemInstruction": {"parts": [{"text": "Be kind."}]},
        "contents": [
            {"role": "user", "parts": [{"text": "Refund W1"}]},
            {"role": "model", "parts": [{"text": "Hm.", "thought": True}, *calls]},
            {"role": "user", "parts": results},
        ],
        "tools": [{"functionDeclarations": declared}],
        "generationConfig": {"temperature": 0},
    }


def upper(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: v.upper() if k == "type" and isinstance(v, str) else upper(v) for k, v in value.items()}
    return value


def ollama() -> Body:
    body = chat()
    calls = [
        {"function": {"name": "get_order", "arguments": {"order_id": "W1"}}},
        {"function": {"name": "get_user", "arguments": {"user_id": "u9"}}},
    ]
    results = [
        {"role": "tool", "tool_name": "get_order", "content": json.dumps(ORDER)},
        {"role": "tool", "tool_name": "get_user", "content": json.dumps(USER)},
    ]
    said = [{"role": "assistant", "content": "", "tool_calls": calls}, *results]
    return {"model": "llama", "messages": [*body["messages"][:2], *said], "tools": body["tools"]}


def traced() -> Body:
    """As importers write it."""
    calls = [
        {"id": "x1", "name": "get_order", "arguments": {"order_id": "W1"}},
        {"id": "x2", "name": "get_user", "arguments": {"user_id": "u9"}},
    ]
    return {
        "messages": [
            {"role": "user", "content": "Refund W1"},
            {"role": "assistant", "content": None, "tool_calls": calls, "thinking": "Hm."},
            {"role": "tool", "content": ORDER, "tool_call_id": "x1", "name": "get_order"},
            {"role": "tool", "content": USER, "tool_call_id": "x2", "name": "get_user"},
        ],
        "system": "Be kind.",
        "tools": [
            {"type": "function", "name": t["name"], "description": t["description"], "parameters": schema(t)}
            for t in SPECS
        ],
    }


def spans() -> Body:
    """As GenAI spans hold it."""
    calls = [
        {"type": "tool_call", "id": "x1", "name": "get_order", "arguments": {"order_id": "W1"}},
        {"type": "tool_call", "id": "x2", "name": "get_user", "arguments": '{"user_id": "u9"}'},
    ]
    results = [
        {"type": "tool_call_response", "id": "x1", "response": ORDER},
        {"type": "tool_call_response", "id": "x2", "response": json.dumps(USER)},
    ]
    return {
        "messages": [
            {"role": "developer", "parts": [{"type": "text", "content": "Be kind."}]},
            {"role": "user", "parts": [{"type": "text", "content": "Refund W1"}]},
            {"role": "assistant", "parts": calls},
            {"role": "tool", "parts": results},
        ],
        "tools": traced()["tools"],
    }


def read(body: Body) -> Conversation:
    found = ConversationReader().read(json.dumps(body).encode())
    assert found is not None
    return found


WHOLE = ComparedFields(tools=True, descriptions=True, schemas=True)


@pytest.mark.parametrize("form", [responses, anthropic, gemini, ollama, traced, spans], ids=lambda form: form.__name__)
def test_every_form_of_a_conversation_has_one_key(form: Any) -> None:
    assert read(form()).key(WHOLE) == read(chat()).key(WHOLE)


def said(*messages: Body, **more: Any) -> bytes:
    return read({"messages": list(messages), **more}).key(ComparedFields())


def user(content: Any) -> Body:
    return {"role": "user", "content": content}


@pytest.mark.parametrize("edit", ["Be kind. ", "be kind.", "Be kind.\nAlways.", ""])
def test_another_system_prompt_is_another_key(edit: str) -> None:
    assert said(user("Hi"), system=edit) != said(user("Hi"), system="Be kind.")


def test_instructions_written_twice_count_once() -> None:
    twice = said({"role": "system", "content": "Be kind."}, user("Hi"), system="Be kind.")

    assert twice == said(user("Hi"), system="Be kind.")


def test_messages_of_one_role_that_follow_each_other_are_one() -> None:
    apart = read({"messages": [user("a"), user([{"type": "text", "text": "b"}])]})

    assert apart.has_joints
    assert [apart.key(ComparedFields(), joiner) for joiner in JOINERS] == [
        said(user(f"a{joiner}b")) for joiner in JOINERS
    ]


@pytest.mark.parametrize("nothing", [None, "", []])
def test_content_that_says_nothing_is_no_difference(nothing: Any) -> None:
    call = {"id": "1", "name": "f", "arguments": {}}
    bare = {"role": "assistant", "tool_calls": [call]}

    assert said(user("Hi"), bare | {"content": nothing}) == said(user("Hi"), bare)


def test_results_belong_to_their_calls_whichever_came_first() -> None:
    calls = [{"id": i, "name": "f", "arguments": {}} for i in ("a", "b")]
    asked = {"role": "assistant", "tool_calls": calls}
    first, second = ({"role": "tool", "tool_call_id": i, "content": i} for i in ("a", "b"))

    assert said(asked, first, second) == said(asked, second, first)
    assert said(asked, first, second) != said(asked, first | {"content": "b"}, second | {"content": "a"})


def test_ids_that_come_again_name_the_latest_call() -> None:
    turn = [{"role": "assistant", "tool_calls": [{"id": "x", "name": "f", "arguments": {}}]}]
    again = [*turn, {"role": "tool", "tool_call_id": "x", "content": "1"}]
    renamed = json.loads(json.dumps(again).replace('"x"', '"y"'))

    assert said(*again, *again) == said(*again, *renamed)


def langfuse_reference(content: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode()
    return f"@@@langfuseMedia:type=image/png|id={digest[:22]}|source=base64_data_uri@@@"


def test_an_image_is_known_by_its_bytes_in_every_api() -> None:
    forms = [
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD", "detail": "low"}},
        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUJD"}},
        {"inlineData": {"mimeType": "image/png", "data": "QUJD"}},
        # Langfuse takes media out of a trace, and leaves a digest of the bytes.
        {"type": "image_url", "image_url": {"url": langfuse_reference(b"ABC")}},
        {"type": "image", "source": {"type": "base64", "data": langfuse_reference(b"ABC")}},
    ]

    assert len({said(user([form])) for form in forms}) == 1
    assert said(user([forms[0]])) != said(user([{"inlineData": {"mimeType": "image/png", "data": "QUJE"}}]))


def test_a_scope_leaves_out_what_a_trace_does_not_know() -> None:
    named = read({"messages": [user("Hi")], "tools": ["search"]})
    whole = read({"messages": [user("Hi")], "tools": [{"name": "search", "description": "Find.", "input_schema": {}}]})

    assert not named.scope().descriptions
    assert whole.key(named.scope()) == named.key(named.scope())
    assert whole.key(whole.scope()) != named.key(whole.scope())


def test_the_model_and_parameters_count_where_that_is_asked_for() -> None:
    trace = read({"messages": [user("Hi")], "model": "gpt-5", "parameters": {"max_completion_tokens": 5}})
    same = read(
        {"contents": [{"parts": [{"text": "Hi"}]}], "model": "gpt-5", "generationConfig": {"maxOutputTokens": 5}}
    )
    other = read({"messages": [user("Hi")], "model": "gpt-5", "max_tokens": 6, "temperature": 1})
    scope = trace.scope(exact=True)

    assert same.key(scope) == trace.key(scope)
    assert other.key(scope) != trace.key(scope)
    assert other.key(trace.scope()) == trace.key(trace.scope())


def test_a_conversation_goes_on_from_what_the_provider_keeps() -> None:
    reader = ConversationReader()
    first = reader.read(json.dumps({"input": "Hi", "instructions": "Be kind."}).encode())
    assert first is not None
    call = {"id": "c1", "name": "f", "arguments": {}}
    kept = first.answered({"role": "assistant", "content": None, "tool_calls": [call]})
    more = {"input": [{"type": "function_call_output", "call_id": "c1", "output": "1"}], "instructions": "Be brief."}
    whole = reader.read(json.dumps(more | {"previous_response_id": "resp_1"}).encode(), before=kept)
    assert whole is not None

    result = {"role": "tool", "tool_call_id": "c1", "content": "1"}
    asked = {"role": "assistant", "tool_calls": [call]}
    assert whole.key(ComparedFields()) == said(user("Hi"), asked, result, system="Be brief.")


def test_a_reader_that_has_read_the_beginning_reads_the_same() -> None:
    messages = [user("a"), {"role": "assistant", "content": "b"}, user("c"), {"role": "assistant", "content": "d"}]
    reader = ConversationReader()
    for size in (1, 3, 4, 2):
        text = json.dumps({"messages": messages[:size]}).encode()
        found = reader.read(text)
        assert found is not None
        assert found.key(ComparedFields()) == said(*messages[:size])


NESTED = b'{"messages":[{"role":"tool","content":' + b"[" * 500 + b"]" * 500 + b"}]}"
ODD = [b"", b"[]", b"null", b'{"messages":', b'{"messages":{}}', b'{"messages":[1,null,{"role":7}]}', b'{"tools":3}']


@pytest.mark.parametrize("text", [*ODD, NESTED])
def test_what_is_no_conversation_never_raises(text: bytes) -> None:
    found = ConversationReader().read(text)

    assert found is None or found.key(WHOLE)


def test_a_result_in_parts_is_the_same_where_a_trace_has_it_as_json() -> None:
    parts = [{"type": "text", "text": json.dumps(ORDER)}]

    def result(content: Any) -> Any:
        return said({"role": "tool", "tool_call_id": "call_1", "content": content})

    assert result(json.dumps(parts)) == result(parts) == result(json.dumps(ORDER))
    assert result(json.dumps([ORDER])) != result(json.dumps(ORDER))
