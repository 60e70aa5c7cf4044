"""The rows of the table: what is measured, in which systems, and the aim each row is held to.

The aims are those of the design's table of numbers; a row without one shows a trend or a limit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

OURS = "ours"
LANGGRAPH = "langgraph_sqlite"
CALL_PEERS = ("agent_rewind", "llm_cassette", "agentcassette")
PROXY_PEERS = ("mitmproxy", "vcrpy")
IMPORT_PEERS = (*CALL_PEERS, "vcrpy", LANGGRAPH, "flakestorm")
HELP_PEERS = ("agent_rewind", "llm_cassette", "flakestorm")  # the others have no command line
SECRET_PEERS = ("detect_secrets", "scrubadub")
PERSONAL_PEERS = ("presidio", "scrubadub")
FINDING_PEERS = ("detect_secrets", "presidio", "scrubadub")


@dataclass(frozen=True)
class Job:
    """One measurement of one system, taken in a process of its own."""

    system: str
    measurement: str
    parameters: tuple[tuple[str, Any], ...] = ()
    once: bool = False
    """Slow, or a number that does not move: taken once, and left out of a quick run."""

    def __str__(self) -> str:
        return " ".join([self.system, self.measurement, *(f"{name}={value}" for name, value in self.parameters)])


@dataclass(frozen=True)
class Cell:
    """One number of a job; `over` divides it by the same number of another job."""

    job: Job
    metric: str
    note: str = ""
    over: Job | None = None


@dataclass(frozen=True)
class Aim:
    """A limit for our number: an upper one, fixed or a share of the row's first peer's, or a lower one."""

    text: str
    limit: float | None = None
    share: float | None = None
    least: float | None = None


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    group: str
    title: str
    unit: str
    """bytes, us, ms, s, times or part"""
    ours: Cell
    peers: tuple[Cell, ...] = ()
    aim: Aim | None = None
    chart: str = ""
    """The title of the row in the chart; empty for a row that the chart leaves out."""

    @property
    def jobs(self) -> list[Job]:
        cells = (self.ours, *self.peers)
        return [job for cell in cells for job in (cell.job, cell.over) if job is not None]


_FASTER = Aim("≥ 20 × faster than LangGraph", share=1 / 20)
_SMALLER = Aim("≤ 1/100 of SqliteSaver", share=1 / 100)
_SIXTH = Aim("≤ 1/6 of SqliteSaver", share=1 / 6)
_RECORD = Aim("≤ 55 µs", limit=55)
_REPLAY = Aim("≤ 5 µs", limit=5)
_REPLAY_SESSION = Aim("≤ 10 µs", limit=10)
_START = Aim("≤ 60 ms", limit=60)
_SEARCH = Aim("≤ 50 ms: 20 MB a second", limit=50_000)
_FIRST_TEXT = "Write to kora.velan@tulen-sera.de, password: Kormel-vita418, card 4242 4242 4242 4242."
_NO_CHECKED = {"presidio": "not for IMEIs", "scrubadub": "for cards alone"}
_NO_PERSONAL = {"presidio": "not for papers", "scrubadub": "not for IP addresses and papers"}
_KEPT = {
    "agent_rewind": "flushed at once",
    "llm_cassette": "only in memory yet",
    "agentcassette": "only in memory yet",
}


def _job(system: str, measurement: str, *, once: bool = False, **parameters: Any) -> Job:
    return Job(system, measurement, tuple(sorted(parameters.items())), once)


def _saved(system: str, steps: int, durability: str = "process", text: str = "prose") -> Job:
    return _job(system, "checkpoints", steps=steps, durability=durability, text=text)


def _delta(steps: int) -> Job:
    return _job(LANGGRAPH, "delta_channel", once=True, steps=steps)


def _called(system: str, count: int) -> Job:
    return _job(system, "calls", count=count)


def _side_by_side(metric: str, systems: tuple[str, ...], job: Callable[[str], Job]) -> tuple[Cell, tuple[Cell, ...]]:
    """The same number of ours and of each peer."""
    return Cell(job(OURS), metric), tuple(Cell(job(system), metric) for system in systems)


def _bytes(steps: int, aim: Aim | None = None) -> Row:
    ours, peers = _side_by_side("bytes", (LANGGRAPH,), lambda system: _saved(system, steps))
    peers = (*peers, Cell(_delta(steps), "bytes", "DeltaChannel, beta"))
    return Row("bytes", f"bytes on disk, {steps:,} steps, state grows 1 KB a step", "bytes", ours, peers, aim)


def _checkpoint(title: str, metric: str, durability: str = "process", aim: Aim | None = None) -> Row:
    cells = _side_by_side(metric, (LANGGRAPH,), lambda system: _saved(system, 1000, durability))
    return Row(metric.split("_")[0], title, "us", *cells, aim)


def _graph(title: str, metric: str, kind: str, durability: str = "process", aim: Aim | None = None) -> Row:
    def job(system: str) -> Job:
        return _job(system, "graph_agent", steps=1000, kind=kind, durability=durability)

    unit = "bytes" if metric == "bytes" else "us"
    return Row("langgraph", title, unit, *_side_by_side(metric, (LANGGRAPH,), job), aim)


def _calls(title: str, metric: str, count: int, aim: Aim | None = None, *, vcrpy: int = 0) -> Row:
    ours, peers = _side_by_side(metric, CALL_PEERS, lambda system: _called(system, count))
    if metric == "record_us":
        peers = tuple(replace(cell, note=_KEPT[cell.job.system]) for cell in peers)
    if vcrpy:
        requests = _job("vcrpy", "replay_requests", count=vcrpy, once=vcrpy >= 1000)
        peers = (*peers, Cell(requests, metric, f"{vcrpy:,} requests, urllib's work included"))
    return Row(metric.split("_")[0], title, "us", ours, peers, aim)


def _start(title: str, measurement: str, systems: tuple[str, ...], aim: Aim = _START) -> Row:
    cells = _side_by_side("over_bare_ms", systems, lambda system: _job(system, measurement))
    return Row("start-up", title, "ms", *cells, aim)


def _cases(group: str, title: str, metric: str, job: Callable[[str], Job], aim: Aim) -> Row:
    theirs = Cell(job("flakestorm"), metric, "serves no tool results")
    return Row(group, title, "s", Cell(job(OURS), metric), (theirs,), aim)


def _proxied(title: str, metric: str, aim: Aim | None = None) -> Row:
    def job(system: str) -> Job:
        return _job(system, "proxied", count=300 if system == "vcrpy" else 2000)

    ours, (proxy, in_process) = _side_by_side(metric, PROXY_PEERS, job)
    peers = (replace(proxy, note="buffers"), replace(in_process, note="buffers; in process, urllib included"))
    return Row("proxy", title, "ms" if metric.endswith("_ms") else "us", ours, peers, aim)


def _found(
    title: str, metric: str, systems: tuple[str, ...], least: float | None = None, lacks: dict[str, str] | None = None
) -> Row:
    """A share of the held-out half of the redaction corpus; `lacks` says what a peer has no rules for."""
    ours, peers = _side_by_side(metric, systems, lambda system: _job(system, "redaction"))
    peers = tuple(replace(cell, note=(lacks or {}).get(cell.job.system, "")) for cell in peers)
    return Row("redaction", title, "part", ours, peers, None if least is None else Aim(f"≥ {least:g}", least=least))


def _searched(title: str, metric: str, unit: str = "us", aim: Aim | None = None) -> Row:
    def job(system: str) -> Job:
        return _job(system, "redaction_speed", size=2_000_000 if system == OURS else 60_000)

    return Row("redaction", title, unit, *_side_by_side(metric, FINDING_PEERS, job), aim)


def _redacted(title: str, kind: str, limit: float) -> Row:
    """Redaction of one class of text, in searches of the same text with a small pattern of `re`."""
    cell = Cell(_job(OURS, "redaction_throughput"), f"{kind}_searches")
    return Row("redaction", title, "times", cell, aim=Aim(f"≤ {limit:g} ×", limit=limit))


_PLAIN = _job(OURS, "plain_calls", count=2000)
_LINEAR = Aim("≤ 10 (8 is linear, 64 quadratic)", limit=10)
_LARGE_CASE = _job(OURS, "large_case", once=True, count=500)
_OTLP, _LARGE_OTLP = (
    _job(OURS, "importing", kind="otlp", size=size, once=size > 10**8) for size in (50_000_000, 500_000_000)
)
_LANGSMITH, _LARGE_LANGSMITH = (
    _job(OURS, "importing", kind="langsmith", size=count, once=count > 10**4) for count in (6000, 100_000)
)


def _growing_case(count: int) -> Job:
    return _job(OURS, "growing_case", count=count)


def _growing_model_case(count: int) -> Job:
    return _job(OURS, "growing_model_case", count=count)


def _imported_case(count: int) -> Job:
    return _job(OURS, "imported_case", count=count)


def _imported(title: str, job: Job) -> tuple[Row, ...]:
    """How long reading a file into runs takes beside parsing its lines alone, and the memory at most."""
    fifth = Aim("≤ 5 × `orjson.loads` alone", limit=5)
    memory = Aim("≤ 300 MB", limit=300e6)
    return (
        Row(
            "importing",
            f"{title}, into runs: CPU beside that of `orjson.loads` alone",
            "times",
            Cell(job, "times_orjson"),
            aim=fifth,
        ),
        Row("importing", "the same, memory of the process at most", "bytes", Cell(job, "peak_bytes"), aim=memory),
    )


_COUNTS = (1000, 10_000, 100_000)
_FLAT = Aim("≤ 1.3 (1 is flat)", limit=1.3)
_LINEAR_TENFOLD = Aim("≤ 12 (10 is linear)", limit=12)


def _side_by_side_of(metric: str, jobs: dict[str, Job]) -> tuple[Cell, tuple[Cell, ...]]:
    """The same number of ours at several sizes; the first has no note."""
    (first, *others) = (Cell(job, metric, note) for note, job in jobs.items())
    return replace(first, note=""), tuple(others)


def _replays(title: str, kind: str) -> tuple[Row, ...]:
    """A replayed call with 1,000, 10,000 and 100,000 on the tape, and what loading the tape and judging adds."""
    jobs = {
        f"{count:,}": _job(OURS, "replayed_calls", kind=kind, count=count, once=count > 10_000) for count in _COUNTS
    }
    few, more, many = jobs.values()
    return (
        Row("growth", f"{title}, a run of 1,000 calls", "us", *_side_by_side_of("call_us", jobs)),
        Row("growth", "the same, growth to 100,000 calls", "times", Cell(many, "call_us", over=few), aim=_FLAT),
        Row(
            "growth",
            "the same with loading the tape and judging, growth from 10,000 to 100,000 calls",
            "times",
            Cell(many, "session_us", over=more),
            aim=_FLAT,
        ),
    )


def _verb(title: str, metric: str, aim: Aim) -> tuple[Row, Row]:
    jobs = {f"{count:,}": _job(OURS, "stored_runs", count=count, once=count > 10_000) for count in _COUNTS}
    _, more, many = jobs.values()
    return (
        Row("growth", f"{title}, a store of 1,000 small runs", "s", *_side_by_side_of(f"{metric}_s", jobs)),
        Row(
            "growth",
            "the same, growth from 10,000 to 100,000 runs",
            "times",
            Cell(many, f"{metric}_s", over=more),
            aim=aim,
        ),
    )


_SANDBOX = _job(OURS, "sandbox")
_REPLAYED_MANY = _job(OURS, "replayed_calls", kind="plain", count=100_000, once=True)
_STORED_MANY = _job(OURS, "stored_runs", count=100_000, once=True)
_RECORDINGS = {f"{count:,}": _job(OURS, "recordings", count=count) for count in (100, 10, 1000)}
_THREADS = {f"{count:,}": _job(OURS, "threaded_calls", count=count) for count in (1, 2, 8, 32)}
_STATES = {
    text: _job(OURS, "growing_state", size=size)
    for text, size in (("1 MB", 1_000_000), ("100 kB", 100_000), ("10 MB", 10_000_000))
}

ROWS = [
    _bytes(100),
    _bytes(300),
    _bytes(1000, Aim("≤ 0.6 MB", limit=0.6e6)),
    Row(
        "bytes",
        "the same, growth from 100 to 1,000 steps",
        "times",
        Cell(_saved(OURS, 1000), "bytes", over=_saved(OURS, 100)),
        (
            Cell(_saved(LANGGRAPH, 1000), "bytes", over=_saved(LANGGRAPH, 100)),
            Cell(_delta(1000), "bytes", "DeltaChannel, beta", over=_delta(100)),
        ),
        Aim("≤ 12 (10 is linear, 100 quadratic)", limit=12),
    ),
    Row(
        "bytes",
        "bytes on disk, 1,000 steps of random letters, the worst case for compression",
        "bytes",
        Cell(_saved(OURS, 1000, text="noise"), "bytes"),
        aim=Aim("≤ 1 MB", limit=1e6),
    ),
    Row(
        "bytes",
        "bytes on disk, 300 model calls, their messages grow 1 KB a call",
        "bytes",
        *_side_by_side("bytes", CALL_PEERS, lambda system: _job(system, "growing_calls", once=True, count=300)),
    ),
    _checkpoint("checkpoint write, both synchronous=NORMAL, 1,000 steps", "write_us", aim=_FASTER),
    _checkpoint("the same, wall", "write_wall_us"),
    _checkpoint("checkpoint write, both synchronous=FULL, 1,000 steps", "write_us", "power", _FASTER),
    _checkpoint("the same, wall", "write_wall_us", "power"),
    _checkpoint("loading a checkpoint mid-run, 1,000 steps", "load_us", aim=Aim("ahead of LangGraph", share=1)),
    _graph("a LangGraph agent of 1,000 steps, bytes on disk", "bytes", "dict", aim=_SMALLER),
    _graph("the same, writing a step, both synchronous=NORMAL", "step_us", "dict", aim=_SIXTH),
    _graph("the same, wall", "step_wall_us", "dict"),
    _graph("the same, both synchronous=FULL", "step_us", "dict", "power", _SIXTH),
    _graph("the same, wall", "step_wall_us", "dict", "power"),
    _graph("the same agent with LangChain's messages, bytes on disk", "bytes", "AIMessage", aim=_SMALLER),
    _graph("the same, writing a step, both synchronous=NORMAL", "step_us", "AIMessage", aim=_SIXTH),
    _calls("recording one tool call, 1 KB result, on disk at once", "record_us", 1000, _RECORD),
    Row(
        "record",
        "the same, of a tool that changes an object of its own",
        "us",
        Cell(_job(OURS, "counting_calls", count=1000), "record_us"),
    ),
    _calls("the same, in a session of 1,000 with opening and saving", "record_session_us", 1000),
    _calls("replaying one tool call, tape of 100", "replay_us", 100, _REPLAY, vcrpy=250),
    _calls("replaying one tool call, tape of 1,000", "replay_us", 1000, _REPLAY, vcrpy=1000),
    _calls("replaying one tool call, tape of 10,000", "replay_us", 10_000, _REPLAY),
    Row(
        "replay",
        "the same, growth from a tape of 100 to one of 10,000",
        "times",
        Cell(_called(OURS, 10_000), "replay_us", over=_called(OURS, 100)),
        tuple(Cell(_called(peer, 10_000), "replay_us", over=_called(peer, 100)) for peer in CALL_PEERS),
        Aim("≤ 1.5 (1 is flat)", limit=1.5),
    ),
    _calls("the same, in a session of 1,000 with loading the tape", "replay_session_us", 1000, _REPLAY_SESSION),
    Row(
        "time",
        "recording a plain call, CPU beside that of `copy.deepcopy` of its result",
        "times",
        Cell(_PLAIN, "record_times"),
        aim=Aim("≤ 4", limit=4),
    ),
    Row(
        "time",
        "the same, replaying it from a run without overlaps",
        "times",
        Cell(_PLAIN, "replay_times"),
        aim=Aim("≤ 0.5", limit=0.5),
    ),
    Row(
        "time",
        "replaying one call that is awaited beside seven others",
        "us",
        Cell(_job(OURS, "awaited_calls", count=400), "replay_us"),
        aim=Aim("≤ 40 µs", limit=40),
    ),
    Row(
        "time",
        "replaying one call that a pool of four threads makes beside others",
        "us",
        Cell(_job(OURS, "pooled_calls", count=400), "replay_us"),
        aim=Aim("≤ 120 µs", limit=120),
    ),
    Row(
        "time",
        "replaying a run with 65 s of sleeps, wall",
        "s",
        Cell(_job(OURS, "sleeps", once=True), "replay_wall_s"),
        aim=Aim("< 1 s", limit=1),
    ),
    _proxied("one streamed model call, 9 chunks, recorded at the proxy", "record_us", Aim("≤ 0.9 ms", limit=900)),
    _proxied("the same, replayed", "replay_us", Aim("≤ 0.3 ms", limit=300)),
    _proxied("the same, wall, 16 connections", "replay_wall_us", Aim("≤ 1.25 ms: 800 a second", limit=1250)),
    _proxied("what recording adds to the time until the first byte, wall", "first_byte_ms"),
    _start("`import replaykit`, over bare Python", "import_time", IMPORT_PEERS),
    _start("import and first recorded call, over bare Python", "first_call", CALL_PEERS),
    _start("`replaykit --help`, over bare Python", "help_time", HELP_PEERS),
    _cases(
        "cli",
        "one replay through the CLI, Python candidate",
        "total_s",
        lambda system: _job(system, "cli_replay"),
        Aim("≤ 0.2 s", limit=0.2),
    ),
    _cases(
        "cli",
        "the same, wall",
        "total_wall_s",
        lambda system: _job(system, "cli_replay"),
        Aim("≤ 0.2 s", limit=0.2),
    ),
    Row(
        "isolation",
        "setup of a sandbox, CPU of the process that enters it",
        "ms",
        Cell(_SANDBOX, "setup_ms"),
        (Cell(_SANDBOX, "overlays_ms", "besides: its overlays"),),
        Aim("≤ 5 ms", limit=5),
    ),
    Row(
        "isolation",
        "`true` in a sandbox, to its report; CPU of all processes",
        "ms",
        Cell(_SANDBOX, "cpu_ms"),
        (Cell(_SANDBOX, "plain_cpu_ms", "a plain process"),),
    ),
    Row(
        "isolation",
        "the same, wall",
        "ms",
        Cell(_SANDBOX, "wall_ms"),
        (Cell(_SANDBOX, "plain_wall_ms", "a plain process"),),
    ),
    Row("isolation", "a fork in a nested sandbox, CPU of all processes", "ms", Cell(_SANDBOX, "nested_cpu_ms")),
    Row("isolation", "the same, wall", "ms", Cell(_SANDBOX, "nested_wall_ms")),
    Row(
        "isolation",
        "one replay through the CLI, `--isolation full`",
        "s",
        Cell(_job(OURS, "cli_replay", isolation="full"), "total_s"),
        (Cell(_job(OURS, "cli_replay", isolation="process"), "total_s", "--isolation process"),),
    ),
    Row(
        "isolation",
        "the same, wall",
        "s",
        Cell(_job(OURS, "cli_replay", isolation="full"), "total_wall_s"),
        (Cell(_job(OURS, "cli_replay", isolation="process"), "total_wall_s", "--isolation process"),),
    ),
    _cases(
        "cases",
        "1,000 in-process cases, loading them included",
        "total_s",
        lambda system: _job(system, "cases", count=1000),
        Aim("≤ 1 s", limit=1),
    ),
    Row(
        "cases",
        "`replaykit ci` over 1,000 sessions of five calls, each in a sandbox of its own: CPU of all processes",
        "s",
        Cell(_job(OURS, "ci", count=1000), "total_s"),
        (Cell(_job("flakestorm", "cases", count=1000), "total_s", "in process, serves no tool results"),),
    ),
    Row(
        "cases",
        "the same, wall",
        "s",
        Cell(_job(OURS, "ci", count=1000), "total_wall_s"),
        (Cell(_job("flakestorm", "cases", count=1000), "total_wall_s", "in process, serves no tool results"),),
        Aim("≤ 10 s", limit=10),
    ),
    Row(
        "cases",
        "the same, CPU of a case, start-up left out",
        "ms",
        Cell(_job(OURS, "ci", count=1000), "case_ms"),
        aim=Aim("≤ 10 ms", limit=10),
    ),
    Row(
        "cases",
        "the same in workers that are reused (`--reuse-workers`)",
        "ms",
        Cell(_job(OURS, "ci", count=1000, reuse=True), "case_ms"),
        aim=Aim("≤ 3 ms", limit=3),
    ),
    Row(
        "cases",
        "the same, wall",
        "ms",
        Cell(_job(OURS, "ci", count=1000, reuse=True), "case_wall_ms"),
    ),
    Row(
        "cases",
        "the same over 20,000 sessions: memory of the process, beside that for 1,000",
        "times",
        Cell(
            _job(OURS, "ci", count=20_000, reuse=True, once=True),
            "peak_bytes",
            over=_job(OURS, "ci", count=1000, reuse=True),
        ),
        aim=Aim("≤ 1.5 (1 is flat)", limit=1.5),
    ),
    Row(
        "sizes",
        "a case of 200 model calls, their messages grow 1 KB a call",
        "bytes",
        Cell(_growing_case(200), "bytes"),
        aim=Aim("≤ 1 MB", limit=1e6),
    ),
    Row(
        "sizes",
        "the same, growth from 50 to 400 calls",
        "times",
        Cell(_growing_case(400), "bytes", over=_growing_case(50)),
        aim=_LINEAR,
    ),
    Row(
        "sizes",
        "the same, CPU of scaffolding",
        "times",
        Cell(_growing_case(400), "scaffold_s", over=_growing_case(50)),
        aim=_LINEAR,
    ),
    Row(
        "sizes",
        "the same, CPU of recording",
        "times",
        Cell(_growing_case(400), "record_s", over=_growing_case(50)),
        aim=_LINEAR,
    ),
    Row(
        "sizes",
        "the same, CPU of replaying",
        "times",
        Cell(_growing_case(400), "replay_s", over=_growing_case(50)),
        aim=Aim("≤ 12 (8 is linear, 64 quadratic)", limit=12),
    ),
    Row(
        "sizes",
        "the same over HTTP, as model calls: CPU of replaying; beside it, of making the bodies alone",
        "times",
        Cell(_growing_model_case(400), "replay_s", over=_growing_model_case(50)),
        (Cell(_growing_model_case(400), "agent_s", "the bodies", over=_growing_model_case(50)),),
        Aim("≤ 12 (8 is linear, 64 quadratic)", limit=12),
    ),
    Row(
        "sizes",
        "a case of an imported chat of 121 messages, 335 KB",
        "bytes",
        Cell(_imported_case(121), "bytes"),
        aim=Aim("≤ 1 MB", limit=1e6),
    ),
    Row(
        "sizes",
        "the same, scaffolding it, the start of the process included",
        "s",
        Cell(_imported_case(121), "scaffold_s"),
        aim=Aim("≤ 3 s", limit=3),
    ),
    Row(
        "sizes",
        "the same, bytes, growth from 50 to 400 messages",
        "times",
        Cell(_imported_case(400), "bytes", over=_imported_case(50)),
        aim=_LINEAR,
    ),
    Row(
        "sizes",
        "the same, CPU",
        "times",
        Cell(_imported_case(400), "scaffold_s", over=_imported_case(50)),
        aim=_LINEAR,
    ),
    Row(
        "sizes",
        "scaffolding a run of 500 results of 1 MB, CPU beside that of recording it",
        "times",
        Cell(_LARGE_CASE, "scaffold_times"),
        aim=Aim("≤ 2", limit=2),
    ),
    Row(
        "sizes",
        "the same, memory of the process at most",
        "bytes",
        Cell(_LARGE_CASE, "scaffold_peak_bytes"),
        aim=Aim("≤ 1 GB", limit=1e9),
    ),
    Row("sizes", "replaying that case through the CLI, CPU", "s", Cell(_LARGE_CASE, "replay_s")),
    Row("sizes", "the same, memory of a process at most", "bytes", Cell(_LARGE_CASE, "replay_peak_bytes")),
    _found("secrets found, held-out half of the corpus", "secrets", SECRET_PEERS, 0.95),
    _found("the same, no character of them left", "secrets_covered", SECRET_PEERS),
    _found("the same, forms and places that the tuning half does not have", "unseen_secrets", SECRET_PEERS),
    _found("cards, IBANs and IMEIs found, held-out half", "checked", PERSONAL_PEERS, 0.9, _NO_CHECKED),
    _found("the same, called by the right name", "checked_named", PERSONAL_PEERS, lacks=_NO_CHECKED),
    _found("of these: cards", "card", PERSONAL_PEERS),
    _found("of these: IBANs", "iban", ("presidio",)),
    _found("of these: IMEIs beside their name", "imei", ()),
    _found("other personal data found, held-out half", "personal", PERSONAL_PEERS, lacks=_NO_PERSONAL),
    _found("the same, called by the right name", "personal_named", PERSONAL_PEERS, lacks=_NO_PERSONAL),
    _found("of these: e-mail addresses", "email", PERSONAL_PEERS),
    _found("of these: phone numbers", "phone", PERSONAL_PEERS),
    _found("of these: US social security numbers", "ssn", PERSONAL_PEERS),
    _found("of these: IP addresses", "ip", ("presidio",)),
    _found("of these: identity papers beside their name", "document", ()),
    _found("findings that are right (precision), held-out half", "precision", FINDING_PEERS, 0.95),
    _found("the same, forms and places that the tuning half does not have", "unseen_precision", FINDING_PEERS),
    Row(
        "redaction",
        "secrets that do not stand in what `Redactor.raw` gives, held-out half",
        "part",
        Cell(_job(OURS, "redaction_gone"), "secrets_gone"),
    ),
    _searched("looking through 1 MB of prose with nothing to find", "prose_us", aim=_SEARCH),
    _searched("the same, chat messages in JSON", "json_us", aim=_SEARCH),
    _searched("the same, code", "code_us", aim=_SEARCH),
    _searched("findings in 1 MB of these, where there is nothing to find", "alarms", "part"),
    _redacted("redacting prose, over one search of it with a small pattern of `re`", "prose", 1.5),
    _redacted("the same, chat messages in JSON", "json", 5),
    _redacted("the same, code", "code", 3.2),
    _redacted("the same, results of tools", "tool-results", 3.5),
    _redacted("the same, chats", "chats", 1.5),
    _redacted("the same, markdown", "markdown", 2),
    _redacted("the same, access logs, full of addresses", "access-logs", 60),
    _redacted("the same, hexadecimal digests", "hexadecimal", 42),
    _redacted("the same, base64", "base64", 19),
    _redacted("the same, short texts with a secret each", "full-of-secrets", 240),
    Row(
        "redaction",
        "looking through 1 MB of the corpus, which is dense with things to find",
        "us",
        *_side_by_side("corpus_us", FINDING_PEERS, lambda system: _job(system, "redaction")),
    ),
    Row(
        "redaction",
        "import and the first text looked through, over bare Python",
        "ms",
        *_side_by_side("over_bare_ms", FINDING_PEERS, lambda system: _job(system, "redaction_first", text=_FIRST_TEXT)),
    ),
    *_imported("a file of OTLP, 50 MB of spans of 13 KB on lines of 48", _OTLP),
    *_imported("a LangSmith export, 6,000 runs of 8 KB on a line each", _LANGSMITH),
    *_imported("the same file of OTLP, 500 MB", _LARGE_OTLP),
    *_imported("the same LangSmith export, 100,000 runs", _LARGE_LANGSMITH),
    Row(
        "receiver",
        "a span received over OTLP and on disk (protobuf, 512 a request), CPU of the receiver",
        "us",
        Cell(_job(OURS, "receiver", count=20_480, size=512), "span_us"),
        aim=Aim("≤ 100 µs: 10,000 a second and core", limit=100),
    ),
    Row(
        "receiver",
        "the same, and its trace a run in the store",
        "us",
        Cell(_job(OURS, "receiver", count=10_240, size=512, made=True), "span_us"),
    ),
    Row(
        "telemetry",
        "an event of a tool call as a span, handed to a batch processor",
        "us",
        *_side_by_side("span_us", ("opentelemetry_sdk",), lambda system: _job(system, "telemetry", count=500)),
        aim=Aim("≤ 20 µs", limit=20),
    ),
    Row(
        "telemetry",
        "recording a tool call of 1 KB, without telemetry",
        "us",
        Cell(_job(OURS, "telemetry", count=500), "off_us"),
    ),
    Row(
        "telemetry",
        "the same, with telemetry; beside it, without and with a span that the SDK starts and ends",
        "us",
        Cell(_job(OURS, "telemetry", count=500), "on_us"),
        (Cell(_job(OURS, "telemetry", count=500), "bare_us", "with a bare span"),),
    ),
    *_replays("replaying a call", "plain"),
    *_replays("the same, the calls are alike but for an ignored id", "ignored"),
    *_replays("the same, an address in clear is found by its placeholder", "redacted"),
    *_replays("the same, with the current time in an argument", "now"),
    *_replays("the same, all calls are equal", "polling"),
    Row(
        "growth",
        "replaying 100,000 calls, memory of the process at most",
        "bytes",
        Cell(_REPLAYED_MANY, "peak_bytes"),
        aim=Aim("≤ 250 MB", limit=250e6),
    ),
    *_verb("`replaykit runs`", "runs", _FLAT),
    *_verb("`replaykit show` of one", "show", _FLAT),
    *_verb("`replaykit store stats`", "stats", _LINEAR_TENFOLD),
    *_verb("`replaykit store prune --dry-run`", "plan", _LINEAR_TENFOLD),
    *_verb("`replaykit store prune` of all", "prune", _LINEAR_TENFOLD),
    *_verb("`replaykit store verify`", "verify", _LINEAR_TENFOLD),
    Row(
        "growth",
        "`replaykit store verify`, 100,000 runs, memory of the process at most",
        "bytes",
        Cell(_STORED_MANY, "verify_peak_bytes"),
        aim=Aim("≤ 250 MB", limit=250e6),
    ),
    Row(
        "growth",
        "recordings at the same time, 20 calls of 1 KB each: memory that each of 1,000 takes",
        "bytes",
        Cell(_RECORDINGS["1,000"], "each_bytes"),
        aim=Aim("≤ 60 kB", limit=60e3),
    ),
    Row(
        "growth",
        "the same, recording a call in one of 100",
        "us",
        *_side_by_side_of("call_us", _RECORDINGS),
    ),
    Row(
        "growth",
        "recording a call of 1 KB in the one thread of a run",
        "us",
        *_side_by_side_of("call_us", _THREADS),
    ),
    Row("growth", "the same, wall, one call in a hundred takes longer", "us", *_side_by_side_of("p99_us", _THREADS)),
    Row("growth", "a checkpoint that adds 1 KB to a state of 1 MB", "us", *_side_by_side_of("write_us", _STATES)),
    Row(
        "growth",
        "the same where the list is the whole state",
        "us",
        Cell(_job(OURS, "growing_state", size=1_000_000, is_bare=True), "write_us"),
    ),
    Row("growth", "loading such a checkpoint", "us", *_side_by_side_of("load_us", _STATES)),
    Row(
        "growth",
        "writing such a checkpoint, growth from a state of 100 kB to one of 10 MB",
        "times",
        Cell(_STATES["10 MB"], "write_us", over=_STATES["100 kB"]),
        aim=Aim("≤ 110 (100 is linear)", limit=110),
    ),
]
CHARTED = {
    # The title of a row in the table, and its title in the chart.
    "bytes on disk, 1,000 steps, state grows 1 KB a step": "Bytes on disk: 1,000 steps, the state grows by 1 KB each",
    "checkpoint write, both synchronous=NORMAL, 1,000 steps": "Writing a checkpoint",
    "recording one tool call, 1 KB result, on disk at once": "Recording a tool call of 1 KB",
    "replaying one tool call, tape of 1,000": "Replaying a tool call, 1,000 on the tape",
    "one streamed model call, 9 chunks, recorded at the proxy": "Recording a streamed model call at a proxy",
    "import and first recorded call, over bare Python": "Import and first recorded call",
    "one replay through the CLI, Python candidate": "One replay from the command line",
    "looking through 1 MB of prose with nothing to find": "Searching 1 MB of prose for secrets and personal data",
}
ROWS = [replace(row, chart=CHARTED.get(row.title, "")) for row in ROWS]
GROUPS = list(dict.fromkeys(row.group for row in ROWS))
