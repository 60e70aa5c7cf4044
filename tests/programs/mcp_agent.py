"""An agent with MCP servers, as anybody might write one: `agent.py CONFIG WITH WORD...`, each word `server:city` or
`model:question`. It prints what it was told, by word.

CONFIG is a file, an option that ends in one, or the name of a variable that holds one.
"""

from __future__ import annotations

import http.client
import itertools
import json
import os
import subprocess
import sys
from base64 import b64encode
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

numbers = itertools.count(os.getpid())  # ids that no other process uses


def config_of(word: str) -> Any:
    with open(os.environ.get(word, word.rpartition("=")[2]).split(os.pathsep)[0]) as file:
        return json.load(file)["mcpServers"]


def post(url: str, body: Any, headers: dict[str, str], library: str) -> Any:
    sent = {"content-type": "application/json", "accept": "application/json, text/event-stream", **headers}
    text = json.dumps(body)
    if library == "httpx2":
        import httpx2

        return httpx2.post(url, content=text, headers=sent).json()
    if library == "urllib3":
        import urllib3

        return json.loads(urllib3.request("POST", url, body=text, headers=sent).data)
    if library == "aiohttp":
        import asyncio

        import aiohttp

        async def ask() -> Any:
            async with aiohttp.ClientSession() as session, session.post(url, data=text, headers=sent) as answer:
                return await answer.json()

        return asyncio.run(ask())
    place = urlsplit(url)
    if place.username:
        sent["authorization"] = "Basic " + b64encode(place.netloc.rpartition("@")[0].encode()).decode()
    path = f"{place.path}?{place.query}" if place.query else place.path
    with closing(http.client.HTTPConnection(place.hostname or "", place.port, timeout=20)) as connection:
        connection.request("POST", path, text, sent)
        with connection.getresponse() as answer:
            return json.loads(answer.read())


class Stdio:
    def __init__(self, entry: Any) -> None:
        self.process = subprocess.Popen(
            [entry["command"], *entry.get("args", [])],
            env={**os.environ, **entry.get("env", {})},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, message: Any) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            answer = json.loads(line)
            if answer.get("id") == message["id"]:
                return answer
        return {"id": message["id"], "result": "the server has gone"}

    def close(self) -> None:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


class Http:
    def __init__(self, entry: Any, library: str) -> None:
        self.entry, self.library = entry, library

    def ask(self, message: Any) -> Any:
        try:
            return post(self.entry["url"], message, self.entry.get("headers", {}), self.library)
        except (OSError, http.client.HTTPException) as error:
            return {"id": message["id"], "result": type(error).__name__}

    def close(self) -> None:
        pass


def model(question: str, library: str) -> Any:
    body = {"model": "small", "messages": [{"role": "user", "content": question}]}
    answer = post(f"{os.environ['OPENAI_BASE_URL']}/chat/completions", body, {}, library)
    return answer["choices"][0]["message"]["content"]


def main(config: str, library: str, *words: str) -> None:
    open_servers: dict[str, Any] = {}
    told = {}
    for word in words:
        name, _, text = word.partition(":")
        if name == "model":
            told[word] = model(text, library)
            continue
        if name not in open_servers:
            entry = config_of(config)[name]
            open_servers[name] = Stdio(entry) if "command" in entry else Http(entry, library)
        tool, _, city = text.rpartition("/")
        params = {"name": tool or "echo", "arguments": {"city": city}}
        number = next(numbers)
        answer = open_servers[name].ask({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})
        assert answer["id"] == number, answer
        told[word] = answer.get("result") or answer["error"]
    for server in open_servers.values():
        server.close()
    print(json.dumps(told, sort_keys=True))


if __name__ == "__main__":
    main(*sys.argv[1:])
