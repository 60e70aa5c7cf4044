"""An agent on Gemini's generateContent."""

from __future__ import annotations

import os
from typing import Any

from agent_tools import lookup_charge as real_lookup
from google import genai
from google.genai import types

import replaykit as rk

PROMPT = "You are a billing agent. Look charges up before you answer."
TOOL = types.Tool(
    function_declarations=[
        types.FunctionDeclaration(
            name="lookup_charge",
            description="Look up the last charge of an account.",
            parameters=types.Schema(
                type=types.Type.OBJECT,
                properties={"account": types.Schema(type=types.Type.STRING)},
                required=["account"],
            ),
        )
    ]
)
lookup_charge = rk.tool(real_lookup)
wrapped: Any = lambda client: client  # noqa: E731 (an exporter may put its own in its place)


def answer(question: str) -> str:
    options = types.HttpOptions(base_url=os.environ["MODEL_URL"]) if "MODEL_URL" in os.environ else None
    client = wrapped(genai.Client(api_key="none", http_options=options))
    by_hand = types.AutomaticFunctionCallingConfig(disable=True)
    config = types.GenerateContentConfig(system_instruction=PROMPT, tools=[TOOL], automatic_function_calling=by_hand)
    contents: list[Any] = [types.Content(role="user", parts=[types.Part(text=question)])]
    while True:
        response = client.models.generate_content(model="gemini-3", contents=contents, config=config)
        contents.append(response.candidates[0].content)
        if not response.function_calls:
            return str(response.text)
        results = [
            types.Part(
                function_response=types.FunctionResponse(
                    id=call.id, name=call.name, response={"result": lookup_charge(**call.args)}
                )
            )
            for call in response.function_calls
        ]
        contents.append(types.Content(role="user", parts=results))
