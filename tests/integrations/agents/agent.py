"""An agent as people write them, which knows nothing of ReplayKit: two SDKs, streams, tools in a thread pool."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import anthropic
import openai

QUESTION = "What is the weather in Paris, and what time is it?"


def get_weather(city):
    with open("tools.log", "a") as log:
        log.write(f"get_weather {city}\n")
    return f"sunny in {city}"


def get_time(zone):
    return f"noon {zone}"


TOOLS = {"get_weather": get_weather, "get_time": get_time}


def ask_openai():
    client, messages = openai.OpenAI(), [{"role": "user", "content": QUESTION}]
    tools = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in TOOLS]
    while True:
        with client.chat.completions.stream(model="small", messages=messages, tools=tools) as stream:
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return message.content.strip(), []
        messages.append(message.model_dump(exclude_none=True))
        calls = [(call, json.loads(call.function.arguments)) for call in message.tool_calls]
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda made: TOOLS[made[0].function.name](**made[1]), calls))
        for (call, arguments), result in zip(calls, results, strict=True):
            print("tool", call.function.name, json.dumps(arguments, sort_keys=True))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})


def ask_anthropic():
    client, messages = anthropic.Anthropic(), [{"role": "user", "content": QUESTION}]
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in TOOLS]
    while True:
        with client.messages.stream(model="claude", max_tokens=99, messages=messages, tools=tools) as stream:
            message = stream.get_final_message()
        uses = [block for block in message.content if block.type == "tool_use"]
        if not uses:
            return message.content[0].text
        results = [
            {"type": "tool_result", "tool_use_id": use.id, "content": TOOLS[use.name](**use.input)} for use in uses
        ]
        for use in uses:
            print("tool", use.name, json.dumps(use.input, sort_keys=True))
        messages += [{"role": "assistant", "content": message.content}, {"role": "user", "content": results}]


def main():
    with ThreadPoolExecutor() as pool:
        first = [pool.submit(lambda: openai.OpenAI().models.list().data[0].id) for _ in range(3)]
        print("models", [one.result() for one in first])
    print("openai", ask_openai()[0])
    print("anthropic", ask_anthropic())
    if "--with-child" in sys.argv:
        sys.stdout.flush()
        env = {**os.environ, "REPLAYKIT_ALONE": "1"}  # a child that cannot record itself: the proxy's affair
        subprocess.run([sys.executable, __file__], env=env, check=True)


main()
