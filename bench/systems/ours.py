"""ReplayKit, this checkout: through its public names only."""

from __future__ import annotations

import gc
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import case_sizes
import growing
import measurements
import overlaps
import sandboxes
import streams
import workloads
from clock import Stopwatch, tree_cost
from measurements import CallRecorder, Checkpoints, Numbers
from redaction.kinds import FAMILIES
from redaction.measure import Find, Found, accuracy, gone, speed
from streams import Proxy

NAME = "ReplayKit"
DISTRIBUTION = ""  # measured from the checkout, whether it is installed or not

_SOURCE = str(Path(__file__).parents[2] / "src")
_ENVIRONMENT = {"PYTHONPATH": _SOURCE}
_QUESTION = "Where is order 7?"
_CASE = f"""\
replaykit: 1
id: {{name}}
title: The agent fails on a late order
scenario:
  input: "{_QUESTION}"
observed:
  - status_is: error
desired:
  - status_is: success
  - max_tool_calls: 3
  - final_output_exists: true
"""
_PROJECT = """\
replaykit: 1
agent: {type: python, endpoint: "candidate:answer_with_five"}
cases: [sessions]
contract:
  name: default
  invariants: [{id: answers, type: contains, value: shipped}]
"""
_SESSION = f"""\
id: case-{{index:04}}
input: "{_QUESTION}"
tool_responses:
  - {{{{tool: lookup, response: {{{{status: shipped}}}}}}}}
  - {{{{tool: lookup, response: {{{{status: shipped}}}}}}}}
  - {{{{tool: lookup, response: {{{{status: shipped}}}}}}}}
  - {{{{tool: lookup, response: {{{{status: shipped}}}}}}}}
  - {{{{tool: lookup, response: {{{{status: shipped}}}}}}}}
contract: default
"""


def _replaykit() -> ModuleType:
    sys.path.insert(0, _SOURCE)
    import replaykit

    return replaykit


def _recorder() -> CallRecorder:
    rk = _replaykit()

    @contextmanager
    def record(home: Path) -> Iterator[None]:
        with rk.Store.open(home / "store.db") as store, rk.record("bench", store=store):
            yield

    @contextmanager
    def replay(home: Path) -> Iterator[None]:
        with rk.Store.open(home / "store.db", read_only=True) as store:
            tape = rk.Tape.of(store.load("bench"))
        with rk.replaying(tape):
            yield

    return CallRecorder(wrap=rk.tool, record=record, replay=replay)


def calls(work: Path, count: int) -> Numbers:
    return measurements.calls(_recorder(), work, count)


def counting_calls(work: Path, count: int) -> Numbers:
    return measurements.counting_calls(_recorder(), work, count)


def plain_calls(work: Path, count: int) -> Numbers:
    return overlaps.plain(_replaykit(), work, count)


def awaited_calls(work: Path, count: int) -> Numbers:
    return overlaps.awaited(_replaykit(), work, count)


def pooled_calls(work: Path, count: int) -> Numbers:
    return overlaps.pooled(_replaykit(), work, count)


def sleeps(work: Path) -> Numbers:
    return overlaps.sleeps(_replaykit(), work)


def growing_calls(work: Path, count: int) -> Numbers:
    return measurements.growing_calls(_recorder(), work, count)


def checkpoints(work: Path, steps: int, durability: str = "process", text: str = "prose") -> Numbers:
    """The whole state handed over after each step."""
    rk = _replaykit()

    def begin(home: Path) -> Checkpoints:
        stack = ExitStack()
        store = stack.enter_context(rk.Store.open(home / "store.db", durability=durability))
        run = stack.enter_context(rk.record("bench", store=store))

        def write(state: dict[str, Any]) -> int:
            run.checkpoint(state)
            return int(state["step"])

        def reopen() -> Callable[[int], dict[str, Any]]:
            again = rk.Store.open(home / "store.db", read_only=True)
            seqs = [event.seq for event in again.load(run.id).events]
            return lambda step: again.state_at(run.id, seqs[step])

        return Checkpoints(write, stack.close, reopen)

    return measurements.checkpoints(begin, work, steps, text)


def cases(work: Path, count: int) -> Numbers:
    """Load and replay `count` cases one after the other in this process."""
    rk = _replaykit()
    from candidate import answer

    directories = [_write_case(work, f"case-{index:04}") for index in range(count)]
    with Stopwatch() as watch:
        verdicts = [rk.replay(rk.load_case(directory), answer).verdict for directory in directories]
    if set(verdicts) != {"fixed"}:
        raise AssertionError(f"the cases ended with {sorted(set(verdicts))}")
    return {"total_s": watch.cpu_s, "total_wall_s": watch.wall_s}


def sandbox(work: Path) -> Numbers:
    """What a sandbox costs."""
    return sandboxes.sandboxes(work)


def cli_replay(work: Path, isolation: str = "full") -> Numbers:
    """One replay of one case with a Python candidate: `replaykit replay CASE --agent candidate:answer`."""
    case = _write_case(work, "case-0001")
    arguments = ["-m", "replaykit", "replay", case.name, "--agent", "candidate:answer", "--isolation", isolation]
    environment = {"PYTHONPATH": f"{_SOURCE}{os.pathsep}{Path(__file__).parents[1]}"}
    return measurements.process(arguments, work, env=environment, expect="FIXED", times=8)


def growing_case(work: Path, count: int) -> Numbers:
    return case_sizes.growing_case(_replaykit(), work, count)


def growing_model_case(work: Path, count: int) -> Numbers:
    return case_sizes.growing_model_case(_replaykit(), work, count)


def imported_case(work: Path, count: int) -> Numbers:
    return case_sizes.imported_case(_SOURCE, work, count)


def large_case(work: Path, count: int) -> Numbers:
    return case_sizes.large_case(_SOURCE, work, count)


def replayed_calls(work: Path, kind: str, count: int) -> Numbers:
    return growing.replayed_calls(_replaykit(), _SOURCE, work, kind, count)


def stored_runs(work: Path, count: int) -> Numbers:
    return growing.stored_runs(_replaykit(), _SOURCE, work, count)


def recordings(work: Path, count: int) -> Numbers:
    return growing.recordings(_replaykit(), work, count)


def threaded_calls(work: Path, count: int) -> Numbers:
    return growing.threaded_calls(_replaykit(), work, count)


def growing_state(work: Path, size: int, is_bare: bool = False) -> Numbers:
    return growing.growing_state(_replaykit(), work, size, is_bare=is_bare)


def ci(work: Path, count: int, reuse: bool = False) -> Numbers:
    """`replaykit ci` over `count` sessions of five calls, over a run with one; the agent in a worker for each core.

    CPU is that of all processes, those in sandboxes included.
    """
    environment = {"PYTHONPATH": f"{_SOURCE}{os.pathsep}{Path(__file__).parents[1]}"}
    arguments = ["-m", "replaykit", "ci", *(["--reuse-workers"] if reuse else [])]
    found = {}
    for name, sessions in (("one", 1), ("all", count)):
        place = work / name
        (place / "sessions").mkdir(parents=True)
        (place / "replaykit.yaml").write_text(_PROJECT)
        for index in range(sessions):
            (place / "sessions" / f"case-{index:05}.yaml").write_text(_SESSION.format(index=index))
        found[name] = tree_cost(arguments, cwd=place, env=os.environ | environment, expect=f"{sessions} passed")
    whole, one = found["all"], found["one"]
    return {
        "total_s": whole.cpu_s,
        "total_wall_s": whole.wall_s,
        "case_ms": (whole.cpu_s - one.cpu_s) / (count - 1) * 1e3,
        "case_wall_ms": (whole.wall_s - one.wall_s) / (count - 1) * 1e3,
        "peak_bytes": whole.peak_bytes,
    }


def _write_case(work: Path, name: str) -> Path:
    """A case with three tool calls of 1 KB, one signature and three assertions."""
    directory = work / name
    (directory / "fixtures").mkdir(parents=True)
    (directory / "case.yaml").write_text(_CASE.format(name=name))
    calls = [
        {"call": index, "path": "", "arguments": {"index": index, "query": _QUESTION}, "result": result}
        for index, result in enumerate(workloads.results(3))
    ]
    fixture = {"replaykit": 1, "kind": "tool_call", "name": "lookup", "calls": calls}
    (directory / "fixtures" / "lookup.json").write_text(json.dumps(fixture))
    return directory


def first_call(work: Path) -> Numbers:
    statement = measurements.first_call_statement(
        "import replaykit as rk", session="rk.record('bench', store='first.db')", wrap="rk.tool"
    )
    return measurements.start_up(statement, work, env=_ENVIRONMENT)


def graph_agent(work: Path, steps: int, kind: str, durability: str = "process") -> Numbers:
    """A LangGraph agent on our saver."""
    _replaykit()
    import graphs

    from replaykit.integrations.langgraph import ReplayKitSaver

    def begin(home: Path) -> tuple[ReplayKitSaver, Callable[[], None]]:
        saver = ReplayKitSaver(home / "store.db", durability=durability)
        saver.setup()
        return saver, saver.close

    return graphs.agent(begin, work, steps, kind)


def import_time(work: Path) -> Numbers:
    return measurements.start_up("import replaykit", work, env=_ENVIRONMENT)


def help_time(work: Path) -> Numbers:
    statement = measurements.help_statement("replaykit.cli:main", "replaykit")
    return measurements.start_up(statement, work, env=_ENVIRONMENT)


def proxied(work: Path, count: int) -> Numbers:
    """Streamed requests through the proxy of `replaykit record -- CMD` and `replaykit replay CASE -- CMD`."""
    _replaykit()
    from replaykit.cli import GARBAGE_AT
    from replaykit.handlers.replay.world import World
    from replaykit.model.run import RunHeader, TraceRun
    from replaykit.programs.merge import merge_in_store
    from replaykit.programs.plan import Mode, ProgramPlan
    from replaykit.programs.proxy import address_of, open_port, running_proxy

    gc.set_threshold(GARBAGE_AT)  # as in the process of the command
    recorded: list[TraceRun] = []

    @contextmanager
    def opened(mode: Mode, address: str, world: World | None) -> Iterator[Proxy]:
        port = open_port()
        plan = ProgramPlan(
            mode=mode,
            run_id="bench",
            store=str(work / f"{mode.value}.db"),
            proxy=address_of(port),
            upstreams={"openai": f"{address}/v1"},
        )
        with running_proxy(port, plan, world):
            yield Proxy(port.getsockname()[1], "/openai/chat/completions", time.process_time)

    @contextmanager
    def record(address: str) -> Iterator[Proxy]:
        with opened(Mode.RECORD, address, None) as proxy:
            yield proxy
        with _replaykit().Store.open(work / "record.db") as store:
            recorded.append(merge_in_store(store, RunHeader(id="bench")))

    def replay(address: str) -> AbstractContextManager[Proxy]:
        return opened(Mode.REPLAY, address, World(case_id="bench", calls=recorded[0].events))

    return streams.measured(record, replay, count)


def _family(kind: str) -> str:
    """What the corpus calls a kind of ours: personal data by name, all else is a secret."""
    kind = {"id-number": "document"}.get(kind, kind)
    return kind if kind in FAMILIES else "secret"


def finder() -> Find:
    _replaykit()
    from replaykit.redaction import find

    return lambda text: [Found(found.start, found.end, _family(found.kind)) for found in find(text)]


def redaction(work: Path) -> Numbers:
    return accuracy(finder())


def redaction_gone(work: Path) -> Numbers:
    _replaykit()
    from replaykit.redaction import Redactor

    return gone(Redactor(key=b"the key of a benchmark, not kept").raw)


def redaction_speed(work: Path, size: int) -> Numbers:
    return speed(finder(), size)


def redaction_throughput(work: Path) -> Numbers:
    _replaykit()
    from redaction.throughput import throughput

    from replaykit.redaction import Redactor

    return throughput(Redactor(key=b"the key of a benchmark, not kept").raw)


def redaction_first(work: Path, text: str) -> Numbers:
    return measurements.start_up(f"from replaykit.redaction import find; assert find({text!r})", work, env=_ENVIRONMENT)


def importing(work: Path, kind: str, size: int) -> Numbers:
    """Reading a file of traces into runs, beside nothing but parsing its lines."""
    from importing import FORMATS, reading

    return reading(work, f"{kind}.jsonl", FORMATS[kind](size), kind)


def receiver(work: Path, count: int, size: int, made: bool = False) -> Numbers:
    from receiving import received

    return received(work, count, size, made=made, env=_ENVIRONMENT)


def telemetry(work: Path, count: int) -> Numbers:
    """Tool calls recorded: alone, with telemetry, with a span of the SDK beside; and what our span alone costs."""
    from opentelemetry.metrics import NoOpMeterProvider
    from telling import ROUNDS, Counting, Way, recorded, timed

    rk = _replaykit()
    lookup = rk.tool(measurements.Lookup().function())
    counting = Counting((3 * count + 1) * ROUNDS)

    @contextmanager
    def session() -> Iterator[None]:
        with rk.Store.open(work / "store.db") as store, rk.record("bench", store=store):
            yield

    def turn_on() -> None:
        rk.telemetry.enable(tracer_provider=counting.provider, meter_provider=NoOpMeterProvider())

    def call(index: int) -> None:
        lookup("q", index=index)

    def call_and_span(index: int) -> None:
        lookup("q", index=index)
        counting.bare_span()

    turn_off = rk.telemetry.disable
    numbers = recorded(
        session, count, off=Way(turn_off, call), on=Way(turn_on, call), bare=Way(turn_off, call_and_span)
    )
    turn_on()
    from replaykit.telemetry.switch import watch  # what a writer tells of each event

    with rk.Store.open(work / "store.db") as store:
        run = store.load("bench")
        told = watch(run.header, store.path)
    numbers["span_us"] = timed(lambda: told.event(run.events[7]), count)
    counting.expect((3 * count + 1) * ROUNDS)
    return numbers
