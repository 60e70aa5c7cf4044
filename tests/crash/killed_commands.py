"""The commands that are killed: how each is started, what it had acknowledged by then, and that it is still there."""

from __future__ import annotations

import http.client
import http.server
import json
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.crash.projects import HANGS, LEFT_WITHIN_S, SECRET, Project, command_of
from tests.formats.otel.protobufs import as_protobuf
from tests.formats.otel.spans import agent, document, tool

import replaykit as rk
from replaykit.errors import StoreError
from replaykit.intake.receiver.spool import Spool
from replaykit.isolation import Level, support
from replaykit.model.run import RunStatus, TraceRun, encode_run
from replaykit.programs.recovery import recover
from replaykit.testing import sample_call

WORKER = Path(__file__).with_name("worker.py")
ACKNOWLEDGED = "acknowledged"
MAX_WAIT_S = 60.0
RUNS_TO_IMPORT = 400
STRANGER = (sys.executable, "-S", "-E")
"""A Python that takes no part: as good as another language."""
WRITTEN = "written-by-the-candidate"

AGENT = f"""
import os, subprocess
import replaykit as rk

@rk.tool
def lookup(n, token):
    return {{"n": n, "token": token}}

def answer(question):
    for n in range(5):
        lookup(n, os.environ[{SECRET!r}])
    if os.environ.get({HANGS!r}):
        open({WRITTEN!r}, "a").write("an isolated candidate writes this into a layer\\n")
        subprocess.run(["sleep", "300"])
    raise RuntimeError("it went wrong")
"""
PROGRAM = f"""
import http.client, json, os, subprocess, sys
from urllib.parse import urlsplit

place = urlsplit(os.environ["OPENAI_BASE_URL"])
secret = os.environ[{SECRET!r}]

def ask(n):
    connection = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
    body = {{"model": "small", "messages": [{{"role": "user", "content": f"{{n}}: my key is {{secret}}"}}]}}
    headers = {{"content-type": "application/json", "authorization": "Bearer " + secret}}
    connection.request("POST", place.path + "/chat/completions", json.dumps(body), headers)
    answer = connection.getresponse()
    if answer.status != 200:
        sys.exit(f"status {{answer.status}}: {{answer.read()}}")
    answer.read()

for n in range(int(sys.argv[1])):
    ask(n)
    if len(sys.argv) > 2:
        with open(sys.argv[2], "a") as file:
            file.write(f"{{n}}\\n")
if os.environ.get({HANGS!r}):
    open({WRITTEN!r}, "a").write("an isolated candidate writes this into a layer\\n")
    subprocess.run(["sleep", "300"])
sys.exit("it went wrong")
"""
CONFIG = """
replaykit: 1
agent: {type: python, endpoint: "agent:answer", timeout: 60000}
cases: [cases/agent]
"""


class Kind:
    """A command that is killed."""

    is_shut = True
    """False where a candidate runs without isolation: its processes and what it writes are then its own affair."""

    def prepare(self, project: Project) -> None:
        """Put into a new project what the command needs."""

    def kill(self, project: Project, rng: random.Random) -> None:
        """Start the command, kill it at a random moment, and remember what it had acknowledged."""
        raise NotImplementedError

    def check(self, project: Project) -> None:
        """Everything that was acknowledged is there, and nothing is damaged."""
        raise NotImplementedError

    def finish(self, project: Project) -> None:
        """What was killed can be gone on with."""

    @property
    def acknowledged(self) -> int | None:
        """How many things were acknowledged, in all projects; None for a command that acknowledges nothing."""
        return None


def waited_for(happened: Callable[[], bool], process: subprocess.Popen[bytes]) -> bool:
    """True as soon as something has happened; False when the process has ended before."""
    give_up = time.monotonic() + MAX_WAIT_S
    while time.monotonic() < give_up:
        if happened():
            return True
        if process.poll() is not None:
            return False
        time.sleep(0.005)
    raise AssertionError("nothing happened")


def kill_after(process: subprocess.Popen[bytes], seconds: float) -> None:
    """Kill a process, and it alone: what it started has to notice."""
    time.sleep(seconds)
    process.kill()
    process.wait(timeout=30)


def check_store(project: Project) -> None:
    """The store is whole, and takes the next run."""
    with rk.Store.open(project.store) as store:
        assert list(store.verify()) == []
        with rk.record("after", store=store) as run:
            run.checkpoint({"fine": True})
        assert store.state_at(run.id) == {"fine": True}


class Recording(Kind):
    """`rk.record`, in a program that records run after run."""

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()
        self._total = 0

    def kill(self, project: Project, rng: random.Random) -> None:
        file = project.elsewhere / f"{ACKNOWLEDGED}-{rng.random()}"
        process = project.start(sys.executable, str(WORKER), str(project.store), str(rng.random()), str(file))
        assert waited_for(lambda: file.exists() and file.stat().st_size > 0, process), project.errors()
        kill_after(process, rng.random() * 0.15)
        lines = file.read_text().split("\n")[:-1]  # a line that was cut off is not acknowledged
        self._steps = Counter(line.split()[0] for line in lines)
        self._total += len(lines)

    def check(self, project: Project) -> None:
        with rk.Store.open(project.store) as store:
            for run_id, steps in self._steps.items():
                calls = [call.arguments["n"] for call in store.load(run_id).calls]
                assert calls[:steps] == list(range(steps)), f"steps of {run_id} are lost"
                assert len(store.state_at(run_id)["messages"]) >= steps
        check_store(project)

    @property
    def acknowledged(self) -> int:
        return self._total


class RecordingCommand(Kind):
    """`record -- CMD` with a program that the proxy stands in front of: an answer that came is on disk."""

    def __init__(self) -> None:
        self._calls = self._total = 0

    def prepare(self, project: Project) -> None:
        (project.directory / "program.py").write_text(PROGRAM)

    def kill(self, project: Project, rng: random.Random) -> None:
        file = project.elsewhere / f"{ACKNOWLEDGED}-{rng.random()}"
        with model_server() as url:
            command = ["record", "--no-inject", "--", *STRANGER, "program.py", "100000", str(file)]
            process = project.replaykit(*command, OPENAI_BASE_URL=url)
            assert waited_for(lambda: file.exists() and file.stat().st_size > 0, process), project.errors()
            kill_after(process, rng.random() * 0.3)
            assert not project.end_processes(LEFT_WITHIN_S), "the program did not notice that its proxy is gone"
        self._calls = len(file.read_text().split("\n")) - 1
        self._total += self._calls

    def check(self, project: Project) -> None:
        with rk.Store.open(project.store) as store:
            [run] = recover(store)
            assert run.status is RunStatus.CANCELLED
            assert len(list(run.calls)) >= self._calls, "answers that came are lost"
        check_store(project)

    @property
    def acknowledged(self) -> int:
        return self._total


class Serving(Kind):
    """`serve` while it receives traces: what was answered with 200 is in the spool, or a run already."""

    def __init__(self) -> None:
        self._sent = 0
        self._total = 0

    def prepare(self, project: Project) -> None:
        self._sent = 0

    def kill(self, project: Project, rng: random.Random) -> None:
        process, address = self._started(project)
        killer = threading.Thread(target=kill_after, args=(process, rng.random() * 0.4))
        killer.start()
        try:
            while post(address, export(self._sent, project.secret)) == 200:
                self._sent += 1
                self._total += 1
        except (OSError, http.client.HTTPException):
            pass
        killer.join()

    def _started(self, project: Project) -> tuple[subprocess.Popen[bytes], str]:
        file = project.elsewhere / "printed"
        file.unlink(missing_ok=True)
        process = project.replaykit("serve", "--port", "0", "--json", prints_to=file)
        assert waited_for(lambda: b"\n" in file.read_bytes(), process), project.errors()
        first = json.loads(file.read_bytes().splitlines()[0])
        return process, str(first["url"]).removeprefix("http://")

    def check(self, project: Project) -> None:
        spool = Spool(project.directory / ".replaykit" / "store-otlp.db")
        try:
            for number in range(self._sent):
                spans = spool.spans(trace_id(number))[0]
                assert len({span.id for span in spans}) == 2, f"trace {number} was acknowledged and is lost"
                assert project.secret not in str(spans)
        finally:
            spool.close()
        check_store(project)

    def finish(self, project: Project) -> None:
        """Another receiver makes runs of all that was acknowledged."""
        process, _ = self._started(project)
        try:
            waited_for(lambda: len(runs_in(project, "support")) >= self._sent, process)
        finally:
            process.terminate()
            process.wait(timeout=60)
        with rk.Store.open(project.store) as store:
            for number in range(self._sent):
                assert store.load(trace_id(number)).tool_calls[0].result["n"] == number

    @property
    def acknowledged(self) -> int:
        return self._total


class Importing(Kind):
    """`import`: a run is there as a whole or not at all, and importing again brings the rest."""

    def __init__(self) -> None:
        self._total = 0
        self._first = 0
        self._trials = 0

    def kill(self, project: Project, rng: random.Random) -> None:
        self._trials += 1
        self._first = len(list(project.elsewhere.glob("traces-*"))) * RUNS_TO_IMPORT
        self._folder = project.elsewhere / f"traces-{self._trials}"
        self._folder.mkdir()
        for number in range(self._first, self._first + RUNS_TO_IMPORT):
            run = imported_run(number, project.secret)
            (self._folder / f"{number}.json").write_bytes(encode_run(run))
        process = project.replaykit("import", str(self._folder))
        begun = f"imported-{self._first}"
        if waited_for(lambda: begun in runs_in(project, "imported"), process):
            kill_after(process, rng.random() * 0.2)

    def check(self, project: Project) -> None:
        found, earlier = runs_in(project, "imported"), {f"imported-{number}" for number in range(self._first)}
        self._total += len(found - earlier)
        assert earlier <= found, "runs of an earlier import are lost"
        with rk.Store.open(project.store) as store:
            for run_id in found - earlier:
                assert [call.arguments["n"] for call in store.load(run_id).calls] == [0, 1, 2], f"{run_id} is in part"
        check_store(project)
        project.finish("import", str(self._folder))
        whole = {f"imported-{number}" for number in range(self._first + RUNS_TO_IMPORT)}
        assert runs_in(project, "imported") == whole

    @property
    def acknowledged(self) -> int:
        return self._total


class Replaying(Kind):
    """A replay, in which a candidate waits for a child: both end with the command, and nothing else has changed."""

    def __init__(self, *command: str) -> None:
        self._command = command
        self._is_first = True

    def prepare(self, project: Project) -> None:
        self._is_first = True
        (project.directory / "agent.py").write_text(AGENT)
        (project.directory / "replaykit.yaml").write_text(CONFIG)
        source = "import os, sys\nsys.path.insert(0, '.')\nimport agent\nimport replaykit as rk\n"
        source += "with rk.record('agent', input='why?'):\n    agent.answer('why?')\n"
        process = project.start(sys.executable, "-c", source)
        assert process.wait(timeout=60) == 1, project.errors()
        project.finish("scaffold", "agent", "--out", "cases/agent")

    def kill(self, project: Project, rng: random.Random) -> None:
        process = project.replaykit(*self._command, **{HANGS: "1"})
        # From the first moments of the command to a candidate that waits for its child.
        if self._is_first:
            assert waited_for(lambda: bool(children(project)), process), project.errors()
            self.is_shut = all(map(has_own_network, children(project)))
            assert self.is_shut or support().level is not Level.FULL, "the candidate is not in a sandbox"
        elif rng.random() < 0.7:
            waited_for(lambda: bool(children(project)), process)
        self._is_first = False
        kill_after(process, rng.random() * 0.5)
        assert process.returncode == -9, f"it ended by itself: {project.errors()}"

    def check(self, project: Project) -> None:
        check_store(project)

    def finish(self, project: Project) -> None:
        """The next replay sees the failure, as if nothing had been killed."""
        project.finish(*self._command, codes=(1,))


class ReplayingProgram(Replaying):
    """`replay -- CMD`, with a program that asks the proxy."""

    def __init__(self) -> None:
        super().__init__("replay", "cases/program", "--", *STRANGER, "program.py", "5")

    def prepare(self, project: Project) -> None:
        self._is_first = True
        (project.directory / "program.py").write_text(PROGRAM)
        with model_server() as url:
            command = ["record", "--no-inject", "--name", "program", "--", *STRANGER, "program.py", "5"]
            process = project.replaykit(*command, OPENAI_BASE_URL=url)
            assert process.wait(timeout=60) == 1, project.errors()
        project.finish("scaffold", "program", "--out", "cases/program")


def children(project: Project) -> list[int]:
    """The processes that the candidate waits for once it has come to its end."""
    return [pid for pid in project.processes() if command_of(pid).startswith("sleep ")]


def has_own_network(pid: int) -> bool:
    """True for a process that the kernel keeps shut."""
    return Path(f"/proc/{pid}/ns/net").readlink() != Path("/proc/self/ns/net").readlink()


def runs_in(project: Project, name: str) -> set[str]:
    """The ids of the runs of a name; none where there is no store yet."""
    if not project.store.exists():
        return set()
    try:
        with rk.Store.open(project.store, read_only=True) as store:
            return {header.id for header in store.headers() if header.name == name}
    except StoreError:  # it is being made
        return set()


def imported_run(number: int, secret: str) -> TraceRun:
    calls = tuple(sample_call(n, f"my key is {secret}", n=n) for n in range(3))
    return TraceRun(id=f"imported-{number}", name="imported", status=RunStatus.SUCCESS, started_at=1e9, events=calls)


def trace_id(number: int) -> str:
    return f"{number + 1:032x}"


def export(number: int, secret: str) -> bytes:
    result = {"n": number, "text": f"my key is {secret}"}
    spans = [
        agent(1, traceId=trace_id(number)),
        tool(2, 1, "t", {"n": number}, result=result, traceId=trace_id(number)),
    ]
    return as_protobuf(document(*spans))


def post(address: str, body: bytes) -> int:
    connection = http.client.HTTPConnection(address, timeout=30)
    try:
        connection.request("POST", "/v1/traces", body, {"Content-Type": "application/x-protobuf"})
        return connection.getresponse().status
    finally:
        connection.close()


class _Model(http.server.BaseHTTPRequestHandler):
    """Answers every question with the same words."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", "0")))
        message = {"role": "assistant", "content": "noted"}
        body = json.dumps({"model": "small", "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: object, client_address: object) -> None:
        """Say nothing of clients that are killed in the middle of a request."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]


@contextmanager
def model_server() -> Iterator[str]:
    """The address of a model on the loopback interface."""
    server = _Server(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


KINDS: dict[str, Callable[[], Kind]] = {
    "rk.record": Recording,
    "record -- CMD": RecordingCommand,
    "serve": Serving,
    "import": Importing,
    "replay --agent": lambda: Replaying("replay", "cases/agent", "--agent", "agent:answer"),
    "ci": lambda: Replaying("ci"),
    "replay -- CMD": ReplayingProgram,
}
