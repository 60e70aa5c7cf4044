"""`replaykit redact scan` and `replaykit redact`, as they are typed."""

from __future__ import annotations

import io
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
import yaml
from tests.commands import Ran
from tests.store.damaged import store_files

import replaykit as rk
from replaykit.cases.fixtures import read_fixtures
from replaykit.cases.lint import lint_cases
from replaykit.cli import run as run_command
from replaykit.formats.files import import_trace
from replaykit.model.events import ToolCall
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.model.values import raw
from replaykit.store.sqlite import SQLiteStore

EMAIL = "jane.doe@customer-mail.org"
TOKEN = "glpat-" + "Zq8Rk2Vn5Xw7Tb3Ld9Hs"
ROOT = Path(__file__).parents[2]


def said(*words: str) -> Ran:
    """Run a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run_command(list(words))
    return Ran(int(code), out.getvalue(), err.getvalue())


def spawned(*words: str, given: bytes = b"", **environment: str) -> Ran:
    """Run a command in a process of its own, with this on its standard input."""
    command = [sys.executable, "-m", "replaykit", *words]
    done = subprocess.run(command, input=given, capture_output=True, timeout=120, env={**os.environ, **environment})
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


def git(*words: str) -> None:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    subprocess.run(["git", *author, *words], check=True, capture_output=True, timeout=60)


def test_findings_are_told_by_place_and_kind_and_never_by_value() -> None:
    Path("a.txt").write_text(f"nothing\n  mail {EMAIL} today\n")
    Path("b").mkdir()
    Path("b/c.json").write_text(json.dumps({"note": TOKEN}))

    found = said("redact", "scan", ".")

    assert found.code == 1
    assert found.out.splitlines() == [
        "a.txt:2:8 email",
        "b/c.json:1:11 gitlab-token",
        "2 files looked at, 2 findings: 1 email, 1 gitlab-token",
    ]
    assert not list(Path().glob(".replaykit"))  # whoever looks makes no key


def test_an_allowance_for_everything_allows_nothing_and_is_named() -> None:
    Path("redaction.toml").write_text('# ours\nallow_patterns = ["."]\n')
    Path("a.txt").write_text(f"mail {EMAIL} today\n")

    found = said("redact", "scan", "a.txt")

    assert found.code == 1
    assert "a.txt:1:6 email" in found.out
    assert "redaction.toml:2: the pattern '.' in allow_patterns is not applied" in found.err


def test_clean_files_pass_and_placeholders_are_clean() -> None:
    Path("a.txt").write_text("mail <email:7f3a91c2> today\n")

    assert (found := said("redact", "scan", "a.txt")).code == 0
    assert found.out == "1 file scanned, nothing found\n"


def test_json_has_the_place_inside_of_json_too() -> None:
    Path("a.json").write_text(json.dumps({"user": {"note": [TOKEN]}}))
    Path("b.bin").write_bytes(b"\0\1")

    found = json.loads(said("redact", "scan", ".", "--json").out)

    assert found["scanned"] == 1
    (leak,) = found["findings"]
    assert (leak["file"], leak["line"], leak["kind"]) == ("a.json", 1, "gitlab-token")
    assert leak["path"].startswith("$.user.note")
    assert found["passed_over"] == [{"file": "b.bin", "why": "binary"}]


def test_sarif_has_what_its_schema_demands() -> None:
    Path("a b.txt").write_text(f"\n{EMAIL} and {EMAIL}\n{TOKEN}\n")

    document = json.loads(said("redact", "scan", ".", "--sarif").out)

    assert document["version"] == "2.1.0"
    (run,) = document["runs"]
    driver = run["tool"]["driver"]
    assert driver["name"] == "replaykit"
    assert [rule["id"] for rule in driver["rules"]] == ["email", "gitlab-token"]
    assert len(run["results"]) == 3
    for result in run["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
        assert result["message"]["text"]
        assert result["level"] == "error"
        place = result["locations"][0]["physicalLocation"]
        assert place["artifactLocation"]["uri"] == "a%20b.txt"
        assert place["region"]["startLine"] in (2, 3)
        assert place["region"]["startColumn"] >= 1
    assert EMAIL not in json.dumps(document)


def test_sarif_without_findings_is_a_run_without_results() -> None:
    Path("a.txt").write_text("nothing")

    found = said("redact", "scan", ".", "--sarif")

    assert found.code == 0
    assert json.loads(found.out)["runs"][0]["results"] == []


def test_standard_input_is_a_file_like_any_other() -> None:
    found = spawned("redact", "scan", "-", given=f"one\ntwo {EMAIL}\n".encode())

    assert found.code == 1
    assert found.out.startswith("<stdin>:2:5 email\n")


def test_what_is_staged_is_looked_at_as_it_is_staged() -> None:
    git("init", "-q", ".")
    Path("a.txt").write_text(f"{EMAIL}\n")
    Path("ü b.txt").write_text(f"{TOKEN}\n")
    git("add", ".")
    Path("a.txt").write_text("taken out, and not staged\n")
    Path("c.txt").write_text(f"{EMAIL}: not staged\n")

    found = said("redact", "scan", "--staged")

    assert found.code == 1
    assert [line.rpartition(":")[0].rpartition(":")[0] for line in found.out.splitlines()[:2]] == ["a.txt", "ü b.txt"]
    assert len(found.out.splitlines()) == 3


def test_what_is_committed_or_taken_away_is_not_staged() -> None:
    git("init", "-q", ".")
    Path("a.txt").write_text(f"{EMAIL}\n")
    git("add", ".")
    git("commit", "-qm", "first")
    assert said("redact", "scan", "--staged").code == 0

    git("rm", "-q", "a.txt")

    assert (found := said("redact", "scan", "--staged")).code == 0
    assert found.out == "0 files scanned, nothing found\n"


def test_what_is_no_repository_has_nothing_staged() -> None:
    found = spawned("redact", "scan", "--staged", GIT_DIR=str(Path("nowhere").absolute()))

    assert found.code == 3
    assert "git does not say what is staged" in found.err


def test_what_git_ignores_is_looked_at_only_when_asked_for() -> None:
    git("init", "-q", ".")
    Path(".gitignore").write_text("dist\n")
    Path("dist").mkdir()
    Path("dist/a.txt").write_text(EMAIL)
    Path("b.txt").write_text("nothing")

    assert said("redact", "scan", ".").code == 0
    assert said("redact", "scan", ".", "--ignored").code == 1
    assert said("redact", "scan", "dist/a.txt").code == 1
    assert said("redact", "scan", "dist").code == 1  # somebody named it


def test_files_that_are_too_large_are_named() -> None:
    Path("large.txt").write_text("x\n" * 600_000 + EMAIL)

    found = said("redact", "scan", ".", "--max-mb", "1")

    assert found.code == 0
    assert "note: not scanned: large.txt: 1,200,026 bytes; at most 1,048,576 are looked at" in found.err
    assert said("redact", "scan", ".").code == 1


def test_a_store_is_not_looked_at_and_the_note_says_how_to_look_at_its_runs() -> None:
    with rk.record("desk"):
        pass

    for path in (".replaykit", ".replaykit/store.db"):
        found = said("redact", "scan", path)

        assert found.code == 0
        assert "note: not scanned: .replaykit/store.db: binary; to look at a run: replaykit" in found.err


def test_a_binary_file_is_named_where_it_was_asked_for() -> None:
    Path("a.png").write_bytes(b"\x89PNG\0")

    assert "note: not scanned: a.png: binary" in said("redact", "scan", "a.png").err
    assert said("redact", "scan", ".").err == ""


@pytest.mark.parametrize("words", [(), ("a.txt", "--staged"), (".", "--json", "--sarif"), ("not-there",)])
def test_wrong_usage_is_told(words: tuple[str, ...]) -> None:
    Path("a.txt").write_text("")

    found = said("redact", "scan", *words)

    assert found.code == 2
    assert "error:" in found.err


def test_a_value_that_a_project_allows_is_no_finding() -> None:
    Path("a.txt").write_text(f"{EMAIL}\n")
    Path("redaction.toml").write_text(f'allow = ["{EMAIL}"]\n')

    assert said("redact", "scan", "a.txt").code == 0


def test_thousands_of_files_take_seconds() -> None:
    Path("tree").mkdir()
    for number in range(20):
        (directory := Path("tree", str(number))).mkdir()
        for file in range(100):
            (directory / f"{file}.py").write_text(f"def f{file}(x):\n    return x + {number}\n" * 8)
    began = time.process_time() + sum(os.times()[2:4])

    found = said("redact", "scan", "tree")

    assert found.out == "2000 files scanned, nothing found\n"
    assert time.process_time() + sum(os.times()[2:4]) - began < 6


def test_the_hook_of_the_repository_runs_and_refuses() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert hook["id"] == "replaykit-scan"
    program, *words = shlex.split(hook["entry"])
    assert program == "replaykit"
    Path("bad.txt").write_text(EMAIL)
    Path("good.txt").write_text("nothing")

    assert said(*words, "good.txt", "bad.txt").code == 1  # as pre-commit does it: with the names of the files
    assert said(*words, "good.txt").code == 0


def test_a_large_value_that_is_redacted_is_still_what_its_calls_refer_to() -> None:
    call = ToolCall(seq=0, name="fetch", result_json=raw(f"{EMAIL} " + "word " * 20_000))
    run = TraceRun(id="r", status=RunStatus.ERROR, events=(call,), event_count=1)
    rk.scaffold(run, "cases/page", redact=False)
    (before,) = Path("cases/page/fixtures/values").iterdir()

    assert said("redact", "cases/page").code == 0

    (after,) = Path("cases/page/fixtures/values").iterdir()
    assert after.name != before.name
    (served,) = read_fixtures("cases/page")
    (source,) = import_trace("cases/page/source-trace.json").runs
    assert EMAIL not in served.result
    assert [event.result for event in source.calls] == [served.result]


def test_files_are_redacted_in_place_and_keep_their_rights() -> None:
    Path("a.sh").write_text(f"echo {EMAIL}\n")
    Path("a.sh").chmod(0o750)
    Path("b.json").write_text(json.dumps({"password": "Zebra-77-quartz", "n": 1}, indent=1))
    Path("c.bin").write_bytes(b"\0" + EMAIL.encode())
    Path("d.txt").write_bytes(b"\xff" + EMAIL.encode())
    Path("e.txt").symlink_to("a.sh")

    done = said("redact", ".")

    assert done.code == 0
    assert "2 replaced: 1 email, 1 secret" in done.out
    assert EMAIL not in done.out + done.err
    assert Path("a.sh").read_text().startswith("echo p-")
    assert Path("a.sh").stat().st_mode & 0o777 == 0o750
    assert json.loads(Path("b.json").read_text())["n"] == 1
    assert EMAIL.encode() in Path("c.bin").read_bytes()
    assert EMAIL.encode() in Path("d.txt").read_bytes()
    for note in ("c.bin: binary", "d.txt: no UTF-8 text", "e.txt: a link"):
        assert f"note: skipped: {note}" in done.err
    assert said("redact", "a.sh", "b.json").out == "nothing to replace\n"


def test_a_dry_run_changes_nothing_and_says_that_there_is_something() -> None:
    Path("a.txt").write_text(EMAIL)

    done = said("redact", "a.txt", "--dry-run", "--json")

    assert done.code == 1
    told = json.loads(done.out)
    assert told["dry_run"] is True
    assert told["replaced"] == [{"file": "a.txt", "line": 1, "column": 1, "kind": "email", "path": ""}]
    assert Path("a.txt").read_text() == EMAIL
    assert not Path(".replaykit").exists()
    Path("a.txt").write_text("nothing")
    assert said("redact", "a.txt", "--dry-run").code == 0


def test_a_file_that_cannot_be_written_is_an_error_and_stays_whole() -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    Path("d").mkdir()
    Path("d/a.txt").write_text(EMAIL)
    Path("d").chmod(0o500)

    done = said("redact", "d/a.txt")
    Path("d").chmod(0o700)

    assert done.code == 3
    assert Path("d/a.txt").read_text() == EMAIL


@rk.tool
def look_up(who: str) -> dict[str, str]:
    return {"mail": who, "token": TOKEN}


def recorded_raw(name: str = "raw") -> str:
    with rk.record(name, input=f"{EMAIL} " * 3000, redact=False) as run:  # it takes pages of its own
        look_up(EMAIL)
        with run.step("one"):
            run.checkpoint({"mail": EMAIL})
        run.output = EMAIL
    return run.id


def twice(who: str) -> str:
    look_up(who)
    return look_up(who)["mail"]


def bytes_of_store() -> bytes:
    return b"".join(file.read_bytes() for file in store_files(Path(".replaykit/store.db")))


def raw_store() -> bytes:
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        return b"".join(encode_run(store.load(header.id)) for header in store.headers())


def test_a_run_is_rewritten_and_no_page_of_the_store_holds_it_any_more() -> None:
    run_id = recorded_raw()
    assert EMAIL.encode() in bytes_of_store() + raw_store()

    assert said("redact", run_id, "--dry-run").code == 1
    assert EMAIL.encode() in raw_store()
    done = said("redact", run_id)

    assert done.code == 0, done.err
    assert f"run {run_id} email" in done.out
    assert EMAIL not in done.out
    assert EMAIL.encode() not in bytes_of_store() + raw_store()
    assert TOKEN.encode() not in bytes_of_store() + raw_store()
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        assert store.load(run_id).output.startswith("p-")
        assert list(store.verify()) == []
    assert said("redact", run_id).out == "nothing to replace\n"


def test_forks_share_the_history_of_a_run_and_are_rewritten_with_it() -> None:
    other = recorded_raw("other")
    with SQLiteStore.open(".replaykit/store.db", redact=False) as store:
        with rk.record("parent", input=EMAIL, store=store) as run:
            run.output = twice(EMAIL)
        parent = run.id
        fork = rk.resume(parent, "step_1", agent=twice, store=store).run_id

    done = said("redact", fork)

    assert done.code == 0, done.err
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        for run_id in (parent, fork):
            assert EMAIL.encode() not in encode_run(store.load(run_id))
        assert EMAIL.encode() in encode_run(store.load(other))
        assert store.load(fork).origin.run == parent


def test_a_run_that_is_not_there_is_an_error() -> None:
    recorded_raw()

    assert said("redact", "no-such-run").code == 3


def test_a_run_that_is_being_recorded_is_left_alone() -> None:
    with rk.record("now", input=EMAIL, redact=False) as run:
        done = said("redact", run.id)

    assert done.code == 2
    assert "is being recorded" in done.err


def test_lint_fails_on_a_secret_in_any_file_of_a_case_and_names_its_line(tmp_path: Path) -> None:
    case = tmp_path / "cases" / "search-loop"
    assert said("scaffold", str(ROOT / "examples/traces/search-loop.json"), "--out", str(case)).code == 0
    assert [problem for problem in lint_cases([case]) if problem.code == "secret"] == []
    notes = case / "notes.md"
    notes.write_text(notes.read_text() + f"\nask {EMAIL}\n")

    found = said("lint", str(case))

    assert found.code == 1
    line = len(notes.read_text().splitlines())
    assert f"{notes}:{line}: error: email in column 5" in found.out
    assert "[secret]" in found.out
    assert "replaykit redact" in found.out
    assert EMAIL not in found.out
    assert spawned("lint", str(case), REPLAYKIT_REDACT="off").code == 0
    assert said("redact", str(case)).code == 0
    assert said("lint", str(case)).code == 0
    shutil.rmtree(case)


def test_made_up_data_can_be_kept_on_purpose() -> None:
    trace = {"run_id": "r", "status": "error", "input": EMAIL, "events": [], "error": {"type": "E", "message": EMAIL}}
    Path("t.json").write_text(json.dumps(trace))

    assert said("scaffold", "t.json", "--out", "cases/kept", "--no-redact").code == 0
    assert said("scaffold", "t.json", "--out", "cases/clean").code == 0

    assert EMAIL in Path("cases/kept/source-trace.json").read_text()
    assert EMAIL in Path("cases/kept/case.yaml").read_text()
    assert all(EMAIL not in file.read_text() for file in Path("cases/clean").rglob("*") if file.is_file())
    assert "redacted.invalid" in Path("cases/clean/source-trace.json").read_text()


def test_a_program_is_recorded_as_it_is_when_that_is_asked_for() -> None:
    program = ("--", sys.executable, "-c", f"print({EMAIL!r})")

    done = spawned("record", "--name", "kept", "--no-redact", *program)
    assert said("record", "--name", "clean", *program).code == 0

    assert done.out == f"{EMAIL}\n"
    with SQLiteStore.open(".replaykit/store.db", read_only=True) as store:
        assert store.load("kept").output == EMAIL
        assert store.load("clean").output.startswith("p-")


def test_an_export_is_redacted_whatever_the_store_holds() -> None:
    run_id = recorded_raw()

    for form in ("run_log", "replaykit"):
        shown = said("export", run_id, "--format", form)
        assert shown.code == 0
        assert "redacted.invalid" in shown.out
        assert EMAIL not in shown.out
        assert EMAIL in said("export", run_id, "--format", form, "--no-redact").out


def test_rules_that_cannot_be_used_are_named_wherever_somebody_counts_on_them() -> None:
    Path("gitleaks.toml").write_text(
        "[[rules]]\nid = 'acme-curl'\nregex = '(a.*)+b'\n[[rules]]\nid = 'acme'\nregex = 'acme-[0-9]{9}'\n"
    )
    Path("redaction.toml").write_text('rule_files = ["gitleaks.toml"]\n')
    Path("cases").mkdir()
    Path("text.txt").write_text("nothing to find\n")
    reason = (
        "gitleaks.toml: 1 of 2 rules are not used, so what only they find is not redacted: rule 'acme-curl' (line 2: "
    )

    for arguments in (
        ("scan", "text.txt"),
        ("lint", "cases"),
        ("record", "--name", "r", "--", sys.executable, "-c", "pass"),
    ):
        assert f"note: {reason}" in said(*arguments).err
    assert reason in " ".join(said("doctor").out.split())
