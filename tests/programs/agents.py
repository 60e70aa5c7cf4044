"""Programs for the tests: written to the working directory, and run as anybody would run them."""

from __future__ import annotations

import sys
import textwrap
from pathlib import Path

STRANGER = [sys.executable, "-S", "-E"]
"""A Python that takes no part: as good as another language."""

HTTP = '''
    import http.client, json, os, sys
    from urllib.parse import urlsplit
    from concurrent.futures import ThreadPoolExecutor

    def post(variable, path, body):
        base = urlsplit(os.environ[variable])
        connection = http.client.HTTPConnection(base.hostname, base.port, timeout=20)
        key = os.environ.get("OPENAI_API_KEY", "")
        headers = {"content-type": "application/json", "authorization": "Bearer " + key}
        connection.request("POST", base.path + path, json.dumps(body), headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()

    def chat(messages, **more):
        return post("OPENAI_BASE_URL", "/chat/completions", {"model": "small", "messages": messages, **more})

    def said(text):
        """What a streamed answer says, its tool calls with their arguments put together."""
        content, calls = "", {}
        for line in text.splitlines():
            if line.startswith("data: {"):
                delta = json.loads(line[6:])["choices"][0]["delta"]
                content += delta.get("content") or ""
                for part in delta.get("tool_calls", []):
                    call = calls.setdefault(part["index"], {"id": "", "name": "", "arguments": ""})
                    call["id"] = part.get("id") or call["id"]
                    call["name"] = part["function"].get("name") or call["name"]
                    call["arguments"] += part["function"].get("arguments", "")
        return content, list(calls.values())
'''

LOOP = (
    HTTP
    + """
    def get_weather(city): return f"sunny in {city}"
    def get_time(zone): return f"noon {zone}"

    messages = [{"role": "user", "content": "weather and time?"}]
    while True:
        status, text = chat(messages, stream=True)
        if status != 200:
            sys.exit(f"status {status}: {text}")
        content, calls = said(text)
        if not calls:
            break
        made = [{"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
                for c in calls]
        messages.append({"role": "assistant", "tool_calls": made})
        with ThreadPoolExecutor() as pool:
            results = list(pool.map(lambda c: globals()[c["name"]](**json.loads(c["arguments"])), calls))
        for c, result in zip(calls, results):
            print("tool", c["name"], c["arguments"])
            messages.append({"role": "tool", "tool_call_id": c["id"], "content": result})
    print(content)
"""
)
"""An agent that streams, calls the tools it is asked to, side by side, and answers."""


def write(code: str, name: str = "agent.py") -> str:
    """The file with this program."""
    Path(name).write_text(textwrap.dedent(code), encoding="utf-8")
    return name
