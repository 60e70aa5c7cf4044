"""Screens: no line is wider than the terminal, at any width; a program that reads the text gets everything."""

from __future__ import annotations

import itertools
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click import unstyle
from tests.commands import Ran, caller
from tests.matrix import matrix
from tests.terminals import screen_of, use_terminal

import replaykit as rk
from replaykit.checks.conversation import answer_line
from replaykit.cli import run
from replaykit.cli.short_ids import short_ids
from replaykit.model.events import LlmCall, Usage
from replaykit.model.values import raw
from replaykit.report.layout import fit, width_of
from replaykit.report.model_calls import request_line, tokens_line
from replaykit.report.runs import event_line, event_text

EXAMPLES = Path(__file__).parents[2] / "examples"
WIDTHS = (60, 80, 120, 160)
Command = Callable[..., Any]
MESSAGES = [
    {"role": "system", "content": "You help with orders."},
    {"role": "user", "content": "Where is my order?\nIt is late."},
    {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "find", "arguments": '{"order": 7}'}}]},
    {"role": "tool", "tool_call_id": "1", "content": "shipped"},
]


@pytest.fixture
def replaykit(capsys: pytest.CaptureFixture[str]) -> Command:
    return caller(capsys, Ran)


@pytest.fixture
def project(own_directory: Path, replaykit: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    for trace in ("traces", "imported/chat.json", "prompt_fix/gateway-log.json"):
        replaykit("import", EXAMPLES / trace)

    @rk.tool
    def look(question: str) -> str:
        raise TimeoutError("the service did not answer, and this message takes much more than one line " * 3)

    replaykit("scaffold", "run-bill", "--out", "cases/billing")
    Path("agents.py").write_text(AGENTS)
    Path("replaykit.yaml").write_text(CONFIGURATION)
    monkeypatch.syspath_prepend(own_directory)

    with pytest.raises(TimeoutError), rk.record("a name that is longer than most names are " * 3, input="why? " * 60):
        look("a question that is long " * 20)


LINES = [
    "runs",
    "show last",
    "show run-fin",
    "show openai_chat-b",
    "show openai_chat-c",
    "show run-fin --steps",
    "compare run-fin run-bill",
    "show last --forks",
    "lint cases",
    "replay cases/billing --agent agents:unchanged",
    "replay cases/billing --agent agents:fixed",
    "replay cases/billing --agent agents:other",
    "import EXAMPLES --dry-run",
    "store stats",
    "help formats",
    "examples",
    "chaos profiles",
    "chaos run --profile api_outage --agent agents:fixed --input why?",
    "ci",
    "contract run --agent agents:fixed --input why?",
    "store prune --dry-run",
    "store verify",
    "store keep last",
    "store backup copy-of-the-store.db",
    "init",
    "init elsewhere",
    "doctor",
    "demo",
    "examples copy golden",
    "help assertions",
    "help assertions trajectory.match",
    "help schema",
    "golden run-fin",
    "export run-fin -o run-fin.json",
    "scaffold run-trav --out cases/travel",
    "prove cases/billing --bad agents:unchanged --good agents:fixed",
    "judge cases/billing",
    "redact scan cases",
    "redact cases --dry-run",
    "contract lint",
    "contract score --agent agents:fixed --input why?",
    "chaos mutate why? --count 3",
    "lint --upgrade --dry-run",
    "show run-fin --event 99",
    "show a-run-that-does-not-exist-and-has-a-long-name-of-many-letters",
    "replay cases/nothing-of-this-name-exists-here",
    "replay cases/billing --runner-cmd x --agent agents:fixed",
    "replay cases/billing --no-such-option-of-this-name",
    "fork run-fin --step 3 --set x=1 --endpoint http://127.0.0.1:9/",
    "runs --status no-such-status-of-a-run",
    "ci --only everything,and,nothing",
]
AGENTS = """
import replaykit as rk

@rk.tool
def lookup_billing(user_id: str) -> dict:
    raise RuntimeError("called for real")

def unchanged(question):
    for _ in range(5):
        try:
            lookup_billing("usr_8821")
        except Exception:
            pass
    raise RuntimeError("Max tool call limit exceeded. Agent terminated.")

def fixed(question):
    try:
        return str(lookup_billing("usr_8821"))
    except Exception:
        return "The billing service does not answer, and nobody knows why: please try again in a few minutes."

def other(question):
    return str(lookup_billing("somebody else, whose name is longer than a line of this terminal is wide"))
"""


CONFIGURATION = """
replaykit: 1
agent: {type: python, endpoint: "agents:other"}
cases: [cases]
inputs: ["why?", "and how much, and since when, and for which of the accounts that I have had with you?"]
contracts:
  - name: polite
    invariants:
      - {id: says-sorry, type: contains, value: sorry, severity: high}
      - {id: says-that-it-is-sorry-for-the-trouble, type: contains, value: trouble, severity: critical}
mutations: {count: 2}
"""


@matrix(line=LINES, width=WIDTHS)
@pytest.mark.usefixtures("project")
def test_no_line_is_wider_than_the_terminal(monkeypatch: pytest.MonkeyPatch, line: str, width: int) -> None:
    terminal = use_terminal(monkeypatch, width)

    code = run(line.replace("EXAMPLES", str(EXAMPLES / "traces")).split())

    shown = screen_of(terminal.getvalue())
    assert code in (0, 1, 2, 3, 5), shown
    assert len(shown) > 1
    wide = [text for text in shown if width_of(text) > width]
    assert [text for text in wide if " " in text.strip()] == [], "a single word that is too long, such as a path"


@pytest.mark.exhaustive
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("line", LINES)
@pytest.mark.usefixtures("project")
def test_the_plain_text_for_a_width_fits_it_as_well(
    replaykit: Command, monkeypatch: pytest.MonkeyPatch, line: str, width: int
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))

    ran = replaykit(*line.replace("EXAMPLES", str(EXAMPLES / "traces")).split())

    assert ran.out or ran.err
    wide = [text for text in (ran.out + ran.err).splitlines() if width_of(text) > width]
    assert [text for text in wide if " " in text.strip()] == []


@pytest.mark.usefixtures("project")
def test_a_program_that_reads_the_runs_gets_all_columns_and_whole_ids(
    replaykit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    ids = [run["id"] for run in replaykit("runs", "--json").json["runs"]]

    head, *rows = replaykit("runs").out.splitlines()

    assert head.split("  ")[0] == "run"
    assert "started (UTC)" in head
    assert [row.split("  ")[0] for row in rows] == ids


def model_call(**fields: Any) -> LlmCall:
    request = raw({"messages": MESSAGES, "temperature": 0})
    given = {"arguments_json": request, "usage": Usage(input_tokens=400, output_tokens=12)}
    return LlmCall(seq=2, name="gpt-5-mini", **{**given, **fields})


def test_a_model_call_on_one_line_tells_how_much_was_asked_and_what_came_of_it() -> None:
    asked = model_call(result_json=raw({"tool_calls": [{"name": "search", "arguments": {"email": "a@example.com"}}]}))
    said = model_call(result_json=raw({"content": "It was shipped."}))

    assert request_line(asked) == "gpt-5-mini  4 messages"
    assert answer_line(asked) == "search(email='a@example.com')"
    assert answer_line(said) == "'It was shipped.'"
    assert tokens_line(asked) == "412 tok"


def test_a_model_call_in_a_list_has_the_model_apart_from_what_it_was_sent() -> None:
    call = model_call(result_json=raw({"content": "It was shipped."}))

    assert "gpt-5-mini  4 messages → 'It was shipped.'  412 tok" in unstyle(event_line(call, 0.0))


def test_a_model_call_in_full_is_the_conversation() -> None:
    call = model_call(result_json=raw({"content": "It was shipped."}), finish_reason="stop")

    lines = [line.strip() for line in unstyle(event_text(call, 0.0)).splitlines()]

    assert "system     You help with orders." in lines
    assert "user       Where is my order?" in lines
    assert "It is late." in lines
    assert "assistant  → find(order=7)" in lines
    assert "tool       shipped" in lines
    assert "answer     It was shipped." in lines
    assert "options    {'temperature': 0}" in lines
    assert "tokens     400 in, 12 out" in lines
    assert "finish     stop" in lines


def test_an_answer_in_blocks_is_read_like_any_other() -> None:
    text, use = {"type": "text", "text": "I will look."}, {"type": "tool_use", "name": "find", "input": {"order": 7}}

    assert answer_line(model_call(result_json=raw({"content": [text, use]}))) == "find(order=7)"
    assert answer_line(model_call(result_json=raw({"content": [text]}))) == "'I will look.'"


def test_an_answer_of_another_form_is_shown_as_it_is() -> None:
    assert answer_line(model_call(result_json=raw([1, 2]))) == "[1, 2]"


@pytest.mark.usefixtures("project")
def test_short_ids_lead_to_their_runs(replaykit: Command) -> None:
    ids = [run["id"] for run in replaykit("runs", "--json").json["runs"]]
    with rk.Store.open(".replaykit/store.db", read_only=True) as store:
        shortened = short_ids(store, ids)
        alone = short_ids(store, ["run-billing-2024-0312"])

        assert [store.header(shortened[run_id]).id for run_id in ids] == ids
        assert sum(map(len, shortened.values())) < sum(map(len, ids))
        assert store.header(alone["run-billing-2024-0312"]).id == "run-billing-2024-0312"


def test_a_command_that_is_too_long_can_be_pasted_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    words = ["replaykit", "replay", "cases/billing", "--runner-cmd", "python -c 'print(1)'", *(["--live", "x y"] * 4)]

    lines = fit(f"  Run it again: {shlex.join(words)}").split("\n")

    assert [width_of(line) <= 60 for line in lines] == [True] * len(lines)
    assert len(lines) > 2
    script = f"replaykit() {{ printf '%s\\n' replaykit \"$@\"; }}\n{chr(10).join(lines[1:])}"
    done = subprocess.run(["sh", "-c", script], capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines() == words


@pytest.mark.parametrize("command", ["replaykit show 'a", "replaykit x " + "y" * 80])
def test_what_cannot_be_broken_stays_as_it_is(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("COLUMNS", "60")

    lines = fit(f"{command} {'z' * 80}").split("\n")

    assert " ".join(" ".join(line.removesuffix("\\").split()) for line in lines) == f"{command} {'z' * 80}"


def test_show_shortens_a_long_input_and_says_how_to_see_all_of_it(
    own_directory: Path, replaykit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rk.record("long", input="why? " * 100) as run:
        run.output = "word " * 100

    whole = replaykit("show", "long", "-v").out
    terminal = use_terminal(monkeypatch, width=80)
    replaykit("show", "long")

    assert "why? " * 99 not in unstyle(terminal.getvalue()).replace("\n", "")
    assert f"In full (one event: --event N): replaykit show {run.id} -v" in " ".join(
        unstyle(terminal.getvalue()).split()
    )
    assert " ".join(whole.split()).count("why?") == 100
    assert " ".join(whole.split()).count("word") == 100


def test_a_run_without_an_input_shows_none(own_directory: Path, replaykit: Command) -> None:
    with rk.record("quiet") as run:
        run.output = "done"

    assert "input" not in replaykit("show", "quiet").out
    assert "None" not in replaykit("runs").out


@pytest.mark.parametrize(
    "line", ["help formats", "help schema", "chaos profiles", "examples", "help assertions trajectory.match"]
)
def test_reference_material_is_never_cut_off(own_directory: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    terminal = use_terminal(monkeypatch, width=60)

    run(line.split())

    shown = screen_of(terminal.getvalue())
    assert len(shown) > 5
    assert [text for text in shown if "…" in text] == []


def test_the_text_about_an_assertion_is_laid_out_for_the_terminal(
    own_directory: Path, replaykit: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    lines = replaykit("help", "assertions", "output.grounded").out.splitlines()
    paragraph = lines[lines.index("") + 1 :]
    ends = [len(f"{line} {after.split()[0]}") for line, after in itertools.pairwise(paragraph) if line and after]
    modes = replaykit("help", "assertions", "trajectory.match").out

    assert min(ends[:20]) > 60, "a line ends although the next word had room on it"
    assert "`in_order`   include these    yes       yes   no" in modes
    assert "|" not in modes


@pytest.mark.parametrize("mark", ["✓", "✗", "?", "-"])
def test_the_lines_after_a_mark_begin_below_its_text(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    use_terminal(monkeypatch, width=20)

    assert fit(f"  {mark} expected one two three").split("\n") == [f"  {mark} expected one two", "    three"]
