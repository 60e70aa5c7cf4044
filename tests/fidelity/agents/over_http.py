"""Agents that talk to models and services over HTTP. The server stands outside of the recorded process."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed

import aiohttp
import httpx
import requests
from collection import failing, main, ran, server, took

import replaykit as rk


class Failed(Exception):
    """The agent cannot give an answer."""


def chat(messages: list[dict], delay_s: float = 0.0, **more: object) -> dict:
    body = {"model": "small", "messages": messages, **more}
    headers = {"x-delay": str(delay_s), "authorization": "Bearer sk-fidelity"}
    response = httpx.post(f"{server()}/v1/chat/completions", json=body, headers=headers, timeout=10)
    response.raise_for_status()
    return response.json()["choices"][0]["message"]


async def achat(client: httpx.AsyncClient, text: str, delay_s: float) -> str:
    body = {"model": "small", "messages": [{"role": "user", "content": text}]}
    response = await client.post(f"{server()}/v1/chat/completions", json=body, headers={"x-delay": str(delay_s)})
    return response.json()["choices"][0]["message"]["content"]


@rk.tool
def get_balance(account: str):
    ran("get_balance")
    return {"account": account, "balance": -20}


@failing("use tool get_balance for account 4")
def model_with_a_tool(question: str) -> str:
    messages = [{"role": "user", "content": question}]
    for _ in range(4):
        message = chat(messages, tools=[{"type": "function", "function": {"name": "get_balance"}}])
        messages.append(message)
        if not message.get("tool_calls"):
            break
        for call in message["tool_calls"]:
            arguments = json.loads(call["function"]["arguments"])
            result = get_balance(**arguments)
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": json.dumps(result)})
    took(f"{len(messages)} messages")
    if "-20" in messages[-1]["content"]:
        raise Failed(f"said too much: {messages[-1]['content']}")
    return messages[-1]["content"]


@failing("Say it with another kind of API")
def messages_api(question: str) -> str:
    body = {"model": "large", "max_tokens": 50, "messages": [{"role": "user", "content": question}]}
    headers = {"x-api-key": "sk-ant-fidelity", "anthropic-version": "2023-06-01"}
    response = httpx.post(f"{server()}/v1/messages", json=body, headers=headers, timeout=10)
    message = response.json()
    took(message["stop_reason"])
    if message["stop_reason"] == "max_tokens":
        raise Failed("the answer was cut off")
    return message["content"][0]["text"]


@failing("Ask without any library")
def standard_library(question: str) -> str:
    with urllib.request.urlopen(f"{server()}/echo/7", timeout=10) as response:
        text = response.read().decode()
    took(text)
    if text == "echo 7":
        raise Failed("only an echo")
    return text


@failing("Retry until it works")
def unavailable_service(question: str) -> str:
    statuses = []
    for _ in range(3):
        response = requests.get(f"{server()}/status/503", timeout=10)
        statuses.append(response.status_code)
        if response.ok:
            return "up"
    took(str(statuses))
    raise Failed(f"three times {statuses[-1]}")


@failing("Ask three models at once")
async def answers_as_they_come(question: str) -> str:
    order = []
    async with httpx.AsyncClient(timeout=10) as client:
        asked = [achat(client, f"model {number}", delay_s) for number, delay_s in enumerate((0.5, 0.05, 0.25))]
        for coming in asyncio.as_completed(asked):
            order.append(await coming)
    took(" | ".join(order))
    if "model 0" not in order[0]:
        raise Failed(f"took the answer {order[0]!r}")
    return order[0]


@failing("Ask the faster of two models")
async def raced_models(question: str) -> str:
    async with httpx.AsyncClient(timeout=10) as client:
        tasks = [asyncio.create_task(achat(client, name, delay_s)) for name, delay_s in (("big", 0.5), ("tiny", 0.05))]
        done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
    answer = done.pop().result()
    took(answer)
    if "tiny" in answer:
        raise Failed("the tiny model is not good enough")
    return answer


@failing("Ask with little patience")
def read_timeout(question: str) -> str:
    try:
        response = httpx.get(f"{server()}/slow", headers={"x-delay": "0.8"}, timeout=0.2)
    except httpx.ReadTimeout as error:
        took("timed out")
        raise Failed("the service is too slow") from error
    took(str(response.status_code))
    return response.text


@failing("Ask from several threads")
def threads_over_http(question: str) -> str:
    def ask(number: int, delay_s: float) -> str:
        response = requests.get(f"{server()}/echo/{number}", headers={"x-delay": str(delay_s)}, timeout=10)
        return response.text

    with ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(ask, number, delay_s) for number, delay_s in enumerate((0.5, 0.25, 0.05))]
        order = [future.result() for future in as_completed(futures)]
    took(" ".join(order))
    if order[0] != "echo 0":
        raise Failed(f"{order[0]} came first")
    return order[0]


@failing("Stream the answer")
def broken_off_stream(question: str) -> str:
    text = ""
    try:
        with httpx.stream("POST", f"{server()}/stream", json={"stream": True}, timeout=10) as response:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    text += json.loads(line.removeprefix("data: "))["delta"]
    except httpx.RemoteProtocolError as error:
        took(f"broke off after {text!r}")
        raise Failed(f"only {text!r} came") from error
    took("complete")
    return text


@failing("Ask with another client")
async def aiohttp_timeout(question: str) -> str:
    patience = aiohttp.ClientTimeout(total=0.25)
    async with aiohttp.ClientSession(timeout=patience) as session:
        try:
            async with session.get(f"{server()}/slow", headers={"x-delay": "0.9"}) as response:
                took(str(response.status))
                return await response.text()
        except TimeoutError:
            took("timed out")
            raise Failed("the service is too slow") from None


@failing("Wait for the model, but not for long")
async def model_call_with_a_limit(question: str) -> str:
    async with httpx.AsyncClient(timeout=10) as client:
        try:
            answer = await asyncio.wait_for(achat(client, "slowly", 0.8), timeout=0.25)
        except TimeoutError:
            took("gave up")
            raise Failed("the model did not answer in time") from None
    took(answer)
    return answer


@failing("Log in, and ask again")
def session_cookie(question: str) -> str:
    with requests.Session() as session:
        session.get(f"{server()}/login")
        is_known = "session" in session.cookies
        answer = session.get(f"{server()}/orders").json()
    took(f"{is_known} {answer['path']}")
    if is_known:
        raise Failed("logged in, and still no orders")
    return "not logged in"


if __name__ == "__main__":
    main(globals())
