"""Files are cleaned before they are written, and what goes into git fails closed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from msgspec import Struct

import replaykit as rk
from replaykit.candidates.evidence import write_evidence
from replaykit.candidates.golden import check_golden
from replaykit.candidates.output import keep_output, read_output, write_log_output
from replaykit.cases.golden import golden_of, read_golden, write_golden
from replaykit.cases.promote import promote
from replaykit.cases.run_session import session_text, write_session
from replaykit.cases.scaffold import scaffold
from replaykit.checks.assertions import parse_assertion
from replaykit.checks.questions import Answer, Judgement, Question
from replaykit.errors import UsageError
from replaykit.export.forms import export_run
from replaykit.judges.judge import PERSON
from replaykit.judges.judgement_store import add_judgement, read_judgements
from replaykit.model.events import ToolCall
from replaykit.model.result import Finding, ReplayResult, Side, Verdict
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.model.values import raw
from replaykit.programs.plan import new_pins
from replaykit.redaction.events import Door
from replaykit.redaction.files import Leak, clean_struct, file_redactor, leaks_in, refuse_leaks, write_clean
from replaykit.redaction.finding import Edit
from replaykit.redaction.redactor import Located, Redactor

EMAIL = "jane.doe@customer-mail.org"
TOKEN = "glpat-" + "Zq8Rk2Vn5Xw7Tb3Ld9Hs"


class Lazy(Redactor):
    """One that finds, and replaces nothing: what a detector would be that never comes to an end."""

    def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
        return raw

    def text(self, text: str) -> str:
        return text

    def value(self, value: object, *, name: str = "", tool: str = "") -> object:
        return value


@pytest.fixture
def lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    redactor = Lazy(b"a key for tests, thirty-two long")
    for module in ("redaction.project", "cli.redact", "cli.scan"):
        monkeypatch.setattr(f"replaykit.{module}.project_redactor", lambda *_, **__: redactor)


@rk.tool
def look_up(who: str) -> dict[str, str]:
    return {"mail": who, "token": TOKEN}


def failed_run() -> TraceRun:
    call = ToolCall(seq=0, name="look_up", arguments_json=raw({"who": EMAIL}), result_json=raw({"token": TOKEN}))
    return TraceRun(
        id="r1",
        name="desk",
        status=RunStatus.ERROR,
        input_json=raw(f"Where is {EMAIL}?"),
        events=(call,),
        event_count=1,
    )


def texts_below(directory: str) -> str:
    return "\n".join(file.read_text() for file in sorted(Path(directory).rglob("*")) if file.is_file())


class Counted(Struct, frozen=True):
    """What has a number where a placeholder may not stand."""

    pin: int
    name: str


def test_a_value_is_cleaned_as_a_whole_by_its_names_too(redactor: Redactor) -> None:
    result = ReplayResult(
        case_id="x",
        verdict=Verdict.BROKEN,
        reason=f"it wrote to {EMAIL}",
        desired=(Finding(kind="k", holds=False, text=f"saw password={TOKEN}"),),
    )

    shown = clean_struct(result, redactor)

    assert shown.verdict is Verdict.BROKEN
    assert shown.reason.startswith("it wrote to p-")
    assert TOKEN not in shown.desired[0].text


def test_a_number_that_must_be_one_stays_and_the_texts_are_cleaned_all_the_same(redactor: Redactor) -> None:
    shown = clean_struct(Counted(pin=739204, name=EMAIL), redactor)

    assert shown.pin == 739204
    assert shown.name.startswith("p-")


def test_what_is_clean_is_the_same_object(redactor: Redactor) -> None:
    value = Counted(pin=0, name="nothing")

    assert clean_struct(value, redactor) is value
    assert clean_struct(value, None) is value


def test_a_file_is_written_clean_and_whole(redactor: Redactor) -> None:
    write_clean(Path("a.txt"), f"to {EMAIL}\n", redactor, fail_closed=True)

    assert Path("a.txt").read_text().startswith("to p-")
    assert os.listdir() == ["a.txt"]


def test_a_finding_that_is_left_refuses_the_file_and_leaves_the_old_one() -> None:
    Path("a.txt").write_text("old")

    with pytest.raises(UsageError) as caught:
        write_clean(Path("a.txt"), f"one\n to {EMAIL}\n", Lazy(b"a key for tests, thirty-two long"), fail_closed=True)

    assert "a.txt:2:5 email" in str(caught.value)
    assert EMAIL not in str(caught.value)
    assert caught.value.exit_code == 2
    assert Path("a.txt").read_text() == "old"
    assert os.listdir() == ["a.txt"]


def test_many_findings_are_counted_and_not_all_listed(redactor: Redactor) -> None:
    with pytest.raises(UsageError, match="and 3 more"):
        refuse_leaks({"a": f"{EMAIL}\n".encode() * 8}, redactor)


def test_without_a_redactor_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPLAYKIT_REDACT", "off")

    assert file_redactor() is None
    assert leaks_in("a", EMAIL, file_redactor()) == []
    assert file_redactor(redact=True) is not None


def test_leaks_sort_by_place() -> None:
    assert sorted([Leak("b", 1, 1, "x"), Leak("a", 2, 1, "x"), Leak("a", 1, 9, "x")])[0] == Leak("a", 1, 9, "x")


def test_a_case_holds_nothing_of_a_run_that_was_recorded_as_it_was() -> None:
    scaffold(failed_run(), "case", remarks=[f"asked by {EMAIL}"])

    text = texts_below("case")
    assert EMAIL not in text
    assert TOKEN not in text
    assert shown(EMAIL) in Path("case/fixtures/look_up.json").read_text()


def test_the_source_trace_has_the_placeholders_of_the_fixtures() -> None:
    Path("t.json").write_text(export_raw(failed_run()))

    promote("t.json", "case")

    fixture = json.loads(Path("case/fixtures/look_up.json").read_text())["calls"][0]
    trace = Path("case/source-trace.json").read_text()
    assert EMAIL not in texts_below("case")
    assert fixture["arguments"]["who"] in trace
    assert fixture["result"]["token"] in trace


def export_raw(run: TraceRun) -> str:
    return encode_run(run).decode()


def test_a_source_trace_that_is_no_json_is_redacted_as_text() -> None:
    scaffold(failed_run(), "case", source_text=f"log of {EMAIL}\nkey {TOKEN}\n".encode(), source_format="log")

    assert Path("case/source-trace.json").read_text().startswith("log of p-")
    assert TOKEN not in texts_below("case")


@pytest.mark.usefixtures("lazy")
def test_a_case_with_a_finding_left_is_refused_and_nothing_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "run", lambda _, run: run)

    with pytest.raises(UsageError) as caught:
        scaffold(failed_run(), "cases/x")

    assert "cases/x/" in str(caught.value)
    assert "email" in str(caught.value)
    assert EMAIL not in str(caught.value)
    assert list(Path("cases").iterdir()) == []


@pytest.mark.usefixtures("lazy")
def test_exports_sessions_golden_traces_and_judgements_fail_closed_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Door, "run", lambda _, run: run)
    session = {"id": "s", "input": EMAIL, "tool_responses": [], "contract": "default"}
    question = Question(rubric="Is it polite?", output_json=raw(EMAIL))

    for attempt in (
        lambda: export_run(failed_run(), "run_log"),
        lambda: write_session(Path("s.yaml"), session_text(session, Path("s.yaml"))),
        lambda: write_golden(Path("g.golden.json"), golden_of(failed_run())),
        lambda: add_judgement(Path(), question, Judgement(Answer.PASS, "yes"), PERSON),
    ):
        with pytest.raises(UsageError):
            attempt()

    assert os.listdir() == []


def test_sessions_and_judgements_are_redacted() -> None:
    session = {"id": "s", "input": EMAIL, "tool_responses": [], "contract": "default"}
    write_session(Path("s.yaml"), session_text(session, Path("s.yaml")))
    add_judgement(
        Path(), Question(rubric="Is it polite?", output_json=raw(EMAIL)), Judgement(Answer.PASS, f"{EMAIL} ok"), PERSON
    )

    assert "redacted.invalid" in Path("s.yaml").read_text()
    (entry,) = read_judgements(Path()).judgements
    assert entry.reason.startswith("p-")
    assert EMAIL not in Path("judgements.json").read_text()


def test_evidence_gives_the_result_as_it_was_written() -> None:
    result = ReplayResult(case_id="x", verdict=Verdict.BROKEN, reason=f"to {EMAIL}", run=failed_run())

    shown = write_evidence(Path(), result, raw(EMAIL), [f"with {TOKEN}"])

    assert shown.reason.startswith("to p-")
    assert EMAIL not in texts_below(".") + str(shown)
    assert TOKEN not in texts_below(".")
    assert "redacted.invalid" in Path("summary.md").read_text()


def test_a_run_log_that_is_left_as_output_can_be_read_again() -> None:
    write_log_output(Path("out.json"), failed_run(), ())

    attempt = read_output(Path("out.json"))
    assert attempt.run is not None
    assert next(iter(attempt.run.calls)).arguments == {"who": shown(EMAIL)}
    assert EMAIL not in Path("out.json").read_text()


def test_what_a_runner_wrote_itself_gets_into_the_evidence_redacted() -> None:
    Path("out.json").write_text(json.dumps({"status": "success", "final_output": EMAIL}))

    keep_output(Path("out.json"), Path("evidence.json"))
    keep_output(Path("none.json"), Path("no-evidence.json"))

    assert json.loads(Path("evidence.json").read_text())["final_output"].startswith("p-")
    assert not Path("no-evidence.json").exists()


def golden_of_agent() -> Path:
    with rk.record("agent", input="go") as run:
        run.output = agent("go")
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        write_golden(Path("a.golden.json"), golden_of(store.load(run.id)))
    return Path("a.golden.json")


def agent(question: str) -> str:
    """Has its secret from its own code, whatever it is given."""
    look_up(EMAIL)
    return f"{question}: wrote to {EMAIL}"


def test_a_golden_trace_is_redacted_and_holds_for_an_agent_with_the_real_values() -> None:
    file = golden_of_agent()

    assert EMAIL not in file.read_text()
    assert (result := check_golden(read_golden(file), agent)).passed, result.text
    assert not check_golden(read_golden(file), lambda question: look_up(EMAIL)["mail"]).passed


def test_a_golden_trace_holds_without_the_key_by_kind_alone() -> None:
    file = golden_of_agent()
    Path(".replaykit/redaction.key").unlink()

    assert (result := check_golden(read_golden(file), agent)).passed, result.text
    assert not Path(".replaykit/redaction.key").exists()


def run_with(output: str) -> TraceRun:
    return TraceRun(id="r", status=RunStatus.SUCCESS, output_json=raw(output), event_count=0)


def holds(kind: str, value: object, run: TraceRun) -> bool:
    return parse_assertion(kind, value).check(run, Side.DESIRED).holds


def shown(text: str) -> str:
    redactor = file_redactor()
    assert redactor is not None
    return redactor.text(text)


def test_an_assertion_with_a_placeholder_holds_for_the_value_it_stands_for() -> None:
    wanted = shown(f"wrote to {EMAIL}")

    assert holds("output.contains", wanted, run_with(f"wrote to {EMAIL} today"))
    assert holds("output.contains", wanted, run_with(f"{wanted} today"))
    assert not holds("output.contains", wanted, run_with("wrote to someone.else@customer-mail.org"))


def test_an_assertion_with_a_value_holds_for_a_run_that_was_redacted() -> None:
    assert holds("output.contains", f"wrote to {EMAIL}", run_with(shown(f"wrote to {EMAIL} today")))
    assert not holds("output.contains", f"wrote to {EMAIL}", run_with(shown("wrote to other@customer-mail.org")))


def test_a_run_that_nobody_wrote_is_looked_at_as_it_is() -> None:
    assert holds("output.regex", r"@customer-mail\.org", run_with(f"wrote to {EMAIL}"))


def test_without_the_key_placeholders_are_compared_by_their_kind() -> None:
    wanted = "wrote to <email:00000000>"

    assert holds("output.contains", wanted, run_with(f"wrote to {EMAIL}"))
    assert not holds("output.contains", wanted, run_with(f"wrote to {TOKEN}"))
    assert not Path(".replaykit").exists()


def test_safety_counts_a_placeholder_as_what_it_stands_for() -> None:
    leaky = run_with("Your card is <card:0a1b2c3d>, the key <gitlab-token:0a1b2c3d>.")

    assert not holds("safety.no_pii", ["output"], leaky)
    assert not holds("safety.no_secret", ["output"], leaky)
    assert holds("safety.no_pii", {"in": ["output"], "kinds": ["email"]}, leaky)
    assert holds("safety.no_pii", ["output"], run_with("the key <gitlab-token:0a1b2c3d>"))
    assert holds("safety.no_secret", ["output"], run_with("mail <email:0a1b2c3d>"))


def test_the_door_of_a_store_can_be_left_open_by_whoever_opens_it() -> None:
    with rk.record("kept", input=EMAIL, redact=False) as run:
        look_up(EMAIL)
    with rk.record("clean", input=EMAIL):
        look_up(EMAIL)

    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        assert store.load(run.id).input == EMAIL
        assert store.load("clean").input.startswith("p-")
    with (
        rk.Store.open("s.db") as store,
        pytest.raises(UsageError, match="opened here"),
        rk.record(store=store, redact=False),
    ):
        pass


def test_located_findings_and_edits_agree(redactor: Redactor) -> None:
    (found,) = redactor.scan(f"x {EMAIL}")
    (edit,) = redactor.edits(f"x {EMAIL}")

    assert isinstance(found, Located)
    assert isinstance(edit, Edit)
    assert (found.start, found.end, found.kind) == (edit.start, edit.end, edit.kind)


def test_seeds_of_recordings_are_never_taken_for_numbers_of_cards(redactor: Redactor) -> None:
    seeds = [new_pins({}, ()).seed for _ in range(300)]

    assert [seed for seed in seeds if not redactor.is_clean(f"scenario:\n  seed: {seed}\n")] == []
