"""Agents that depend on what the recorded run, or a tool of it, left behind."""

from __future__ import annotations

import contextlib
import contextvars
import decimal
import io
import json
import locale
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path

from collection import every_way, failing, main, ran, took

import replaykit as rk

CHANGED = every_way("changed")


class Refused(Exception):
    """The agent cannot go on."""


def judged(is_bad: object, why: str) -> str:
    took(f"{why}: {bool(is_bad)}")
    if is_bad:
        raise Refused(why)
    return "fine"


@rk.tool
def look_up(key: str):
    ran("look_up")
    return {"key": key, "value": None}


@failing("What is in the cache?", inconclusive=CHANGED)
def sqlite_cache(question: str) -> str:
    database = sqlite3.connect("answers.db")
    database.execute("create table if not exists answers (key text primary key, value text)")
    look_up("start")
    row = database.execute("select value from answers").fetchone()
    if row is None:
        database.execute("insert into answers values ('a', ?)", (json.dumps(look_up("a")),))
        database.commit()
    database.close()
    return judged(row is None, "nothing was cached")


@failing("How often was I asked?", inconclusive=CHANGED)
def counter_file(question: str) -> str:
    file = Path("counter.json")
    count = json.loads(file.read_text())["count"] if file.exists() else 0
    file.write_text(json.dumps({"count": count + 1}))
    look_up("a")
    return judged(count == 0, "asked for the first time")


@failing("Write the log", inconclusive=CHANGED)
def appended_log(question: str) -> str:
    with open("agent.log", "a", encoding="utf-8") as log:
        log.write("run\n")
    look_up("a")
    return judged(len(Path("agent.log").read_text().splitlines()) == 1, "the log has one line")


@failing("Take the lock", inconclusive=CHANGED)
def lock_file(question: str) -> str:
    look_up("a")
    try:
        open("agent.lock", "x").close()
    except FileExistsError:
        return judged(False, "the lock was free")
    return judged(True, "the lock was free")


@failing("Leave a flag", inconclusive=CHANGED)
def flag_file(question: str) -> str:
    look_up("a")
    is_done = os.path.exists("done.flag")
    Path("done.flag").touch()
    return judged(not is_done, "not done yet")


@rk.tool
def download(name: str):
    ran("download")
    Path(name).write_text("ERROR")
    return name


@failing("Read the page", inconclusive=CHANGED)
def file_of_a_tool(question: str) -> str:
    file = Path(download("page.html"))
    text = file.read_text() if file.exists() else ""
    file.unlink(missing_ok=True)
    return judged("ERROR" in text, "an error page")


@rk.tool
def log_in(user: str):
    ran("log_in")
    os.environ["LEFTOVERS_TOKEN"] = "expired"
    return True


@failing("Log in", inconclusive=CHANGED)
def variable_of_a_tool(question: str) -> str:
    os.environ.pop("LEFTOVERS_TOKEN", None)
    log_in("me")
    return judged(os.environ.get("LEFTOVERS_TOKEN") == "expired", "the token has expired")


@rk.tool
def go_to(directory: str):
    ran("go_to")
    os.chdir(directory)
    return True


@failing("Go elsewhere", inconclusive=CHANGED)
def directory_of_a_tool(question: str) -> str:
    os.makedirs("elsewhere", exist_ok=True)
    before = os.getcwd()
    try:
        go_to("elsewhere")
        return judged(os.path.basename(os.getcwd()) == "elsewhere", "in another directory")
    finally:
        os.chdir(before)


FAILURES = 0


@rk.tool
def try_it(what: str):
    global FAILURES
    ran("try_it")
    FAILURES += 1
    return FAILURES


@failing("Try it", inconclusive=CHANGED)
def global_of_a_tool(question: str) -> str:
    before = FAILURES
    try_it("a")
    return judged(before < FAILURES, "it failed")


USER = contextvars.ContextVar("USER", default="")


@rk.tool
def enter(user: str):
    ran("enter")
    USER.set("blocked")
    return True


@failing("Enter", inconclusive=CHANGED)
def context_of_a_tool(question: str) -> str:
    USER.set("")
    enter("me")
    return judged(USER.get() == "blocked", "the user is blocked")


LOCAL = threading.local()


@rk.tool
def enter_thread(user: str):
    ran("enter_thread")
    LOCAL.user = user
    return True


@failing("Enter the thread", inconclusive=CHANGED)
def thread_local_of_a_tool(question: str) -> str:
    LOCAL.user = ""
    enter_thread("me")
    return judged(LOCAL.user == "me", "the thread has a user")


class Assistant:
    def __init__(self) -> None:
        self.errors = 0

    @rk.tool
    def ask(self, number: int):
        ran("ask")
        self.errors += 1
        return "error"

    def work(self) -> str:
        for number in range(3):
            self.ask(number)
        return judged(self.errors == 3, "too many errors")


@failing("Ask three times", inconclusive=CHANGED)
def object_of_a_tool(question: str) -> str:
    return Assistant().work()


@rk.tool
def report(text: str):
    ran("report")
    print(text)
    return True


@failing("Report the quota", inconclusive=CHANGED)
def output_of_a_tool(question: str) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        report("quota exceeded")
    return judged("exceeded" in printed.getvalue(), "the tool reported an error")


@rk.tool
def round_to(digits: int):
    ran("round_to")
    decimal.getcontext().prec = digits
    return True


@failing("Divide one by three", inconclusive=CHANGED)
def precision_of_a_tool(question: str) -> str:
    with decimal.localcontext():
        round_to(3)
        return judged(str(decimal.Decimal(1) / 3) == "0.333", "not precise enough")


@rk.tool
def limit_recursion(depth: int):
    ran("limit_recursion")
    sys.setrecursionlimit(depth)
    return True


@failing("Limit the recursion", inconclusive=CHANGED)
def recursion_limit_of_a_tool(question: str) -> str:
    before = sys.getrecursionlimit()
    limit_recursion(before + 1)
    try:
        return judged(sys.getrecursionlimit() == before + 1, "another limit")
    finally:
        sys.setrecursionlimit(before)


@rk.tool
def speak(language: str):
    ran("speak")
    locale.setlocale(locale.LC_ALL, language)
    return True


@failing("Speak plainly", inconclusive=CHANGED)
def locale_of_a_tool(question: str) -> str:
    before = locale.setlocale(locale.LC_ALL)
    locale.setlocale(locale.LC_ALL, "C")
    speak("C.UTF-8")
    try:
        return judged(locale.setlocale(locale.LC_ALL) == "C.UTF-8", "another locale")
    finally:
        locale.setlocale(locale.LC_ALL, before)


@rk.tool
def install_handler(name: str):
    ran("install_handler")
    signal.signal(getattr(signal, name), signal.SIG_IGN)
    return True


@failing("Ignore a signal", inconclusive=CHANGED)
def signal_handler_of_a_tool(question: str) -> str:
    signal.signal(signal.SIGUSR2, signal.SIG_DFL)
    install_handler("SIGUSR2")
    return judged(signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN, "the signal is ignored")


if __name__ == "__main__":
    main(globals())
