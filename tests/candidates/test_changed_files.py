"""Files that a recorded run changed: an agent that finds them changed in its replay is never called fixed."""

from __future__ import annotations

import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import replaykit as rk
from replaykit.cases.case import load_case
from replaykit.model.changed_files import ChangedFile, changed_files
from replaykit.seam import changed_files as watching


class Failed(Exception):
    """The agent cannot go on."""


@rk.tool
def look_up(key: str) -> dict[str, str | None]:
    return {"key": key, "value": None}


@pytest.fixture(autouse=True)
def own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recorded(agent: Callable[[str], str], store: rk.Store) -> rk.TraceRun:
    with pytest.raises(Failed), rk.record("agent", input="question", store=store) as run:
        run.output = agent("question")
    return store.load(run.id)


def replayed(
    agent: Callable[[str], str], run: rk.TraceRun, fixed: Callable[[str], str] | None = None
) -> rk.ReplayResult:
    made = rk.scaffold(run, "case")
    return rk.replay(made.directory, fixed or agent)


def counts_in_a_file(question: str) -> str:
    file = Path("state.json")
    count = json.loads(file.read_text())["count"] if file.exists() else 0
    file.write_text(json.dumps({"count": count + 1}))
    look_up("a")
    if count == 0:
        raise Failed("the first run")
    return "fine"


def caches_in_sqlite(question: str) -> str:
    database = sqlite3.connect("cache.db")
    database.execute("create table if not exists cache (key text primary key, value text)")
    look_up("start")
    row = database.execute("select value from cache").fetchone()
    if row is None:
        value = look_up("a")["value"]
        database.execute("insert into cache values ('a', ?)", (value,))
        database.commit()
    database.close()
    if row is None:
        raise Failed("nothing in the cache")
    return "cached"


def appends_to_a_log(question: str) -> str:
    with open("agent.log", "a", encoding="utf-8") as log:
        log.write("run\n")
    look_up("a")
    if len(Path("agent.log").read_text().splitlines()) == 1:
        raise Failed("the first line")
    return "fine"


def takes_a_lock(question: str) -> str:
    look_up("a")
    try:
        open("agent.lock", "x").close()
    except FileExistsError:
        return "somebody else does it"
    raise Failed("locked, and broke")


def takes_a_directory_as_lock(question: str) -> str:
    look_up("a")
    try:
        os.mkdir("lock")
    except FileExistsError:
        return "somebody else does it"
    raise Failed("locked, and broke")


def leaves_a_flag(question: str) -> str:
    look_up("a")
    if os.path.exists("done"):
        return "done already"
    Path("done").touch()
    raise Failed("the first run")


def consumes_a_job(question: str) -> str:
    look_up("a")
    jobs = [name for name in os.listdir() if name.endswith(".job")]
    if not jobs:
        return "nothing to do"
    os.remove(jobs[0])
    raise Failed("a bad job")


@rk.tool
def download(url: str) -> str:
    Path("page.html").write_text("ERROR")
    return "page.html"


def reads_what_a_tool_wrote(question: str) -> str:
    file = Path(download("http://example.com/"))
    if not file.is_file():
        return "nothing there"
    text = file.read_text()
    file.unlink()
    if "ERROR" in text:
        raise Failed("an error page")
    return "fine"


AGENTS = [
    counts_in_a_file,
    caches_in_sqlite,
    appends_to_a_log,
    takes_a_lock,
    takes_a_directory_as_lock,
    leaves_a_flag,
    consumes_a_job,
    reads_what_a_tool_wrote,
]


@pytest.mark.parametrize("agent", AGENTS)
def test_an_unchanged_agent_that_finds_a_file_changed_is_not_fixed(
    agent: Callable[[str], str], store: rk.Store
) -> None:
    Path("first.job").touch()

    result = replayed(agent, recorded(agent, store))

    assert result.verdict == "inconclusive"
    assert "changed" in result.reason
    assert "leftover" in {deviation.kind for deviation in result.deviations}


@pytest.mark.parametrize(("agent", "file"), [(counts_in_a_file, "state.json"), (takes_a_lock, "agent.lock")])
def test_a_file_that_was_restored_leaves_no_doubt(agent: Callable[[str], str], file: str, store: rk.Store) -> None:
    run = recorded(agent, store)
    os.remove(file)

    assert replayed(agent, run).verdict == "reproduced"


def test_a_file_with_the_content_it_had_leaves_no_doubt(store: rk.Store) -> None:
    def refuses_the_third(question: str) -> str:
        count = int(Path("count").read_text())
        Path("count").write_text(str(count + 1))
        look_up("a")
        if count == 2:
            raise Failed("the third run")
        return "fine"

    def fixed(question: str) -> str:
        count = int(Path("count").read_text())
        look_up("a")
        return f"run {count}"

    Path("count").write_text("2")
    run = recorded(refuses_the_third, store)

    assert replayed(refuses_the_third, run, fixed).verdict == "inconclusive"
    Path("count").write_text("2")
    assert rk.replay("case", fixed).verdict == "fixed"


def test_a_fix_of_an_agent_that_only_writes_files_is_fixed(store: rk.Store) -> None:
    def agent(question: str) -> str:
        os.makedirs("out/pages", exist_ok=True)
        Path("out/pages/first.txt").write_text(question)
        with open("agent.log", "a", encoding="utf-8") as log:
            log.write("run\n")
        if look_up("a")["value"] is None:
            raise Failed("no value")
        return Path("out/pages/first.txt").read_text()

    def fixed(question: str) -> str:
        os.makedirs("out/pages", exist_ok=True)
        Path("out/pages/first.txt").write_text(question)
        with open("agent.log", "a", encoding="utf-8") as log:
            log.write("run\n")
        look_up("a")
        return Path("out/pages/first.txt").read_text()

    result = replayed(agent, recorded(agent, store), fixed)

    assert result.verdict == "fixed"
    assert result.deviations == ()


def test_a_file_that_a_tool_left_as_the_agent_found_it_leaves_no_doubt(store: rk.Store) -> None:
    def agent(question: str) -> str:
        if "ERROR" in Path(download("http://example.com/")).read_text():
            raise Failed("an error page")
        return "fine"

    def fixed(question: str) -> str:
        return Path(download("http://example.com/")).read_text().lower()

    run = recorded(agent, store)

    assert replayed(agent, run).verdict == "reproduced"
    assert rk.replay("case", fixed).verdict == "fixed"
    Path("page.html").write_text("all is well")
    assert rk.replay("case", agent).verdict == "inconclusive"


def test_the_recording_and_the_case_name_the_files_relative_to_the_working_directory(
    store: rk.Store, tmp_path: Path
) -> None:
    run = recorded(reads_what_a_tool_wrote, store)
    (file,) = changed_files(run.events)

    assert (file.path, file.before, file.tool) == ("page.html", "absent", "download")
    assert file.after.startswith("5 bytes, ")
    made = rk.scaffold(run, "case")
    assert load_case(made.directory).scenario.changed_files == (file,)


def test_files_beyond_the_limit_are_known_by_their_time(store: rk.Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "_NOTED", 3)

    def agent(question: str) -> str:
        for number in range(5):
            Path(f"{number}.txt").write_text("x")
        os.rename("4.txt", "last.txt")
        look_up("a")
        raise Failed("whatever happens")

    def reads_the_last(question: str) -> str:
        look_up("a")
        return Path("last.txt").read_text()

    run = recorded(agent, store)

    assert [file.path for file in changed_files(run.events)] == ["0.txt", "1.txt", "2.txt", ""]
    result = replayed(agent, run, reads_the_last)
    assert result.verdict == "inconclusive"
    assert "more files" in result.reason


def test_temporary_files_and_bytecode_are_not_noted(store: rk.Store, tmp_path: Path) -> None:
    (tmp_path / "fresh_module.py").write_text("VALUE = 1\n")

    def agent(question: str) -> str:
        import tempfile

        sys.path.insert(0, str(tmp_path))
        try:
            __import__("fresh_module")
        finally:
            sys.path.remove(str(tmp_path))
        with tempfile.TemporaryDirectory() as directory, tempfile.NamedTemporaryFile():
            (Path(directory) / "notes.txt").write_text("x")
        raise Failed("whatever happens")

    assert changed_files(recorded(agent, store).events) == ()


def test_the_hook_does_nothing_outside_of_runs() -> None:
    Path("before.txt").write_text("x")

    assert not watching._watched
    assert Path("before.txt").read_text() == "x"


def test_a_case_file_with_changed_files_is_read_as_it_was_written(store: rk.Store) -> None:
    run = recorded(counts_in_a_file, store)
    made = rk.scaffold(run, "case")

    assert load_case(made.directory).scenario.changed_files == (ChangedFile(path="state.json", before="absent"),)


@rk.tool
def append_line(path: str) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write("by the tool\n")


@rk.tool
def insert_row(path: str) -> None:
    database = sqlite3.connect(path)
    database.execute("insert into t values (1)")
    database.commit()
    database.close()


def shares_a_file_with_a_tool(question: str) -> str:
    Path("shared.txt").write_text("by the agent\n")
    append_line("shared.txt")
    if len(Path("shared.txt").read_text().splitlines()) == 2:
        raise Failed("two lines")
    return "one line"


def shares_a_database_with_a_tool(question: str) -> str:
    Path("shared.db").unlink(missing_ok=True)
    database = sqlite3.connect("shared.db")
    database.execute("create table t (x)")
    database.commit()
    insert_row("shared.db")
    (count,) = database.execute("select count(*) from t").fetchone()
    database.close()
    if count == 1:
        raise Failed("one row")
    return "no row"


@pytest.mark.parametrize("agent", [shares_a_file_with_a_tool, shares_a_database_with_a_tool])
@pytest.mark.filterwarnings("ignore::replaykit.RecordingWarning")
def test_what_a_tool_adds_to_a_file_of_the_agent_is_missed(agent: Callable[[str], str], store: rk.Store) -> None:
    result = replayed(agent, recorded(agent, store))

    assert result.verdict.value == "inconclusive"
    assert "shared." in result.reason


def test_a_file_that_the_candidate_writes_after_the_tool_is_its_own(store: rk.Store) -> None:
    def fails(question: str) -> str:
        append_line("own.txt")
        Path("own.txt").write_text("by the agent\n")
        if Path("own.txt").read_text() == "by the agent\n":
            raise Failed("the agent wrote it")
        return "fine"

    assert replayed(fails, recorded(fails, store)).verdict.value == "reproduced"
