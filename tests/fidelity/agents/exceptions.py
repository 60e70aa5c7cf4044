"""Agents that decide by the exception a tool raised."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
import sys
import traceback
from dataclasses import dataclass

import httpx
import requests
from collection import failing, main, ran, took
from pydantic import BaseModel

import replaykit as rk


class Unhelpful(Exception):
    """The agent has nothing to say."""


class RateLimited(Exception):
    def __init__(self, *, retry_after_s: float, limit: str) -> None:
        super().__init__(f"rate limit {limit}")
        self.retry_after_s = retry_after_s
        self.limit = limit


@rk.tool
def call_model(prompt: str):
    ran("call_model")
    raise RateLimited(retry_after_s=30.0, limit="tokens")


@failing("Summarise this")
def keyword_constructor(question: str) -> str:
    try:
        return call_model(question)
    except RateLimited as error:
        took(f"{error.limit} {error.retry_after_s}")
        if error.retry_after_s > 10:
            raise Unhelpful("try again in half a minute") from error
    return "waited"


class ServiceError(Exception):
    """What all services raise."""


class NotFound(ServiceError):
    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


@rk.tool
def load_document(key: str):
    ran("load_document")
    raise NotFound(key)


@failing("Read document 7")
def caught_by_base_class(question: str) -> str:
    try:
        return load_document("7")
    except ServiceError as error:
        took(type(error).__name__)
        raise Unhelpful(f"no document {error.key}") from error


@rk.tool
def sync_calendar(user: str):
    ran("sync_calendar")
    try:
        raise ConnectionResetError(104, "reset by peer")
    except ConnectionResetError as error:
        raise ServiceError("the calendar is gone") from error


@failing("Sync my calendar")
def cause(question: str) -> str:
    try:
        sync_calendar("me")
    except ServiceError as error:
        took(type(error.__cause__).__name__)
        if isinstance(error.__cause__, ConnectionError):
            raise Unhelpful("the network is down") from error
    return "synced"


@rk.tool
def import_rows(name: str):
    ran("import_rows")
    raise ExceptionGroup("two rows", [ValueError("row 1"), KeyError("row 2")])


@failing("Import the rows")
def exception_group(question: str) -> str:
    bad_values = missing_keys = 0
    try:
        import_rows("rows.csv")
    except* ValueError as group:
        bad_values = len(group.exceptions)
    except* KeyError as group:
        missing_keys = len(group.exceptions)
    took(f"{bad_values} {missing_keys}")
    if bad_values and missing_keys:
        raise Unhelpful("two rows are wrong")
    return "imported"


@rk.tool
def read_config(path: str):
    ran("read_config")
    with open(path, encoding="utf-8") as file:
        return file.read()


@failing("Read the configuration")
def missing_file(question: str) -> str:
    try:
        return read_config("/nowhere/config.toml")
    except FileNotFoundError as error:
        took(f"{error.errno} {error.filename}")
        if error.filename.endswith(".toml"):
            raise Unhelpful("there is no configuration") from error
    return "defaults"


class Person(BaseModel):
    age: int


@rk.tool
def parse_person(text: str):
    ran("parse_person")
    return Person.model_validate_json(text)


@failing("How old is she?")
def validation_error(question: str) -> str:
    try:
        return str(parse_person('{"age": "old"}').age)
    except ValueError as error:
        fields = [entry["loc"] for entry in error.errors()] if hasattr(error, "errors") else []
        took(str(fields))
        if fields == [("age",)]:
            raise Unhelpful("she did not say") from error
    return "unknown"


@rk.tool
def get_user(name: str):
    ran("get_user")
    response = requests.Response()
    response.status_code = 404
    response._content = b'{"error": "no such user"}'
    response.headers["content-type"] = "application/json"
    response.raise_for_status()


@failing("Who is mallory?")
def requests_error(question: str) -> str:
    try:
        get_user("mallory")
    except requests.HTTPError as error:
        took(f"{error.response.status_code} {error.response.json()['error']}")
        if error.response.status_code == 404:
            raise Unhelpful("no such user") from error
    return "a user"


@rk.tool
def post_message(text: str):
    ran("post_message")
    request = httpx.Request("POST", "https://chat.example.com/messages")
    httpx.Response(429, json={"retry": 9}, headers={"retry-after": "9"}, request=request).raise_for_status()


@failing("Post the message")
def httpx_error(question: str) -> str:
    try:
        post_message("hello")
    except httpx.HTTPStatusError as error:
        took(f"{error.response.status_code} {error.response.headers['retry-after']} {error.response.json()}")
        if error.response.status_code == 429:
            raise Unhelpful("posted too often") from error
    return "posted"


@rk.tool
def remote_action(name: str):
    ran("remote_action")
    raise rk.ToolError("the server said no", status=503)


@failing("Do it remotely")
def tool_error(question: str) -> str:
    try:
        remote_action("restart")
    except rk.ToolError as error:
        took(str(error.status))
        if error.status == 503:
            raise Unhelpful("the server is down") from error
    return "done"


@rk.tool
def risky(step: str):
    ran("risky")
    error = RuntimeError("it broke")
    error.add_note("while stepping")
    raise error


@failing("Take the risk")
def notes(question: str) -> str:
    try:
        risky("one")
    except RuntimeError as error:
        hints = getattr(error, "__notes__", [])
        took(str(hints))
        if hints:
            raise Unhelpful(hints[0]) from error
    return "no risk"


@rk.tool
def parse_reply(text: str):
    ran("parse_reply")
    return json.loads(text)


@failing("Parse the reply")
def json_error(question: str) -> str:
    try:
        return parse_reply('{"a": 1,}')
    except json.JSONDecodeError as error:
        took(f"{error.lineno}:{error.colno} {error.pos} {error.doc}")
        if error.pos == 8:
            raise Unhelpful("a comma too many") from error
    return "{}"


@rk.tool
def decode_mail(data: bytes):
    ran("decode_mail")
    return data.decode("ascii")


@failing("Read the mail")
def unicode_error(question: str) -> str:
    try:
        return decode_mail(b"caf\xc3\xa9")
    except UnicodeDecodeError as error:
        took(f"{error.start} {error.encoding}")
        if error.object[error.start] == 0xC3:
            raise Unhelpful("not an ASCII mail") from error
    return "mail"


@rk.tool
def run_tests(path: str):
    ran("run_tests")
    subprocess.run(
        [sys.executable, "-S", "-c", "import sys; print('1 failed'); sys.exit(3)"], check=True, capture_output=True
    )


@failing("Run the tests")
def called_process_error(question: str) -> str:
    try:
        run_tests("tests")
    except subprocess.CalledProcessError as error:
        took(f"{error.returncode} {error.stdout!r}")
        if error.returncode == 3:
            raise Unhelpful("a test failed") from error
    return "green"


@rk.tool
def insert_row(key: int):
    ran("insert_row")
    database = sqlite3.connect(":memory:")
    try:
        database.execute("create table t (id primary key)")
        database.executemany("insert into t values (?)", [(key,), (key,)])
    finally:
        database.close()


@failing("Insert row 1")
def database_error(question: str) -> str:
    try:
        insert_row(1)
    except sqlite3.IntegrityError as error:
        took(f"{error.sqlite_errorname} {error}")
        raise Unhelpful("the row exists already") from error
    return "inserted"


@dataclass
class PolicyViolation(Exception):
    rule: str
    severity: int = 1


@rk.tool
def moderate(text: str):
    ran("moderate")
    raise PolicyViolation("insult", severity=3)


@failing("Moderate the text")
def dataclass_exception(question: str) -> str:
    try:
        moderate(question)
    except PolicyViolation as error:
        took(f"{error.rule} {error.severity}")
        if error.severity >= 3:
            raise Unhelpful("the text is not allowed") from error
    return "allowed"


@rk.tool
def shut_down(service: str):
    ran("shut_down")
    sys.exit(4)


@failing("Shut it down")
def system_exit(question: str) -> str:
    try:
        shut_down("web")
    except SystemExit as error:
        took(str(error.code))
        raise Unhelpful(f"the tool wanted to leave with {error.code}") from error
    return "down"


@rk.tool
async def cancelled_inside(job: str):
    ran("cancelled_inside")
    raise asyncio.CancelledError("the job was cancelled by its server")


@failing("Follow the job")
async def cancelled_error(question: str) -> str:
    try:
        await cancelled_inside("job")
    except asyncio.CancelledError as error:
        took("cancelled")
        raise Unhelpful("the job was cancelled") from error
    return "followed"


@rk.tool
def slow_service(name: str):
    ran("slow_service")
    raise TimeoutError("the service took too long")


@failing("Try it three times")
def timeout_error_of_the_tool(question: str) -> str:
    for attempt in range(3):
        try:
            return slow_service("search")
        except TimeoutError:
            took(f"attempt {attempt}")
    raise Unhelpful("three attempts timed out")


@rk.tool
def run_query(sql: str) -> list[str]:
    ran("run_query")
    raise KeyError(sql)


@rk.tool
def ask_model(prompt: str) -> str:
    ran("ask_model")
    return "I do not know." if "KeyError" in prompt else "Fine."


@failing("Query it, and explain what went wrong")
def traceback_in_a_prompt(question: str) -> str:
    try:
        run_query("select")
    except KeyError:
        answer = ask_model(f"Explain:\n{traceback.format_exc()}")
    took(answer)
    if "not know" in answer:
        raise Unhelpful(answer)
    return answer


if __name__ == "__main__":
    main(globals())
