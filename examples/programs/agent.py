"""An agent as it might stand in any project: it knows nothing of ReplayKit, and needs no package.

It asks a model over HTTP, calls the tools that the model wants, and prints the answer. Then it fails: it cannot read
the amount in its own answer. `fixed_agent.py` can.
"""

import json
import os
import sys
import urllib.request


def lookup_order(order: str) -> str:
    print(f"  looking up {order}", file=sys.stderr)
    return f"order {order}: paid $49.99 on March 3rd for one year"


TOOLS = {"lookup_order": lookup_order}


def ask(messages: list[dict]) -> dict:
    request = urllib.request.Request(
        f"{os.environ['OPENAI_BASE_URL']}/chat/completions",
        json.dumps({"model": "small", "messages": messages}).encode(),
        {"content-type": "application/json", "authorization": f"Bearer {os.environ['OPENAI_API_KEY']}"},
    )
    with urllib.request.urlopen(request) as response:
        return json.load(response)["choices"][0]["message"]


def amount(text: str) -> float:
    return float(text.split("$")[1])  # the bug: more words follow


def main(question: str) -> None:
    messages = [{"role": "user", "content": question}]
    while True:
        message = ask(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            result = TOOLS[call["function"]["name"]](**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": result})
    print(message["content"])
    print(f"To check: {amount(message['content']):.2f}")


if __name__ == "__main__":
    main(sys.argv[1])
