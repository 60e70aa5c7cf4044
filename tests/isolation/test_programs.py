"""Ordinary programs run in full isolation as they do without it."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from tests.isolation.outside import run
from tests.matrix import sampled

from replaykit.isolation import Policy, Sandbox

PYTHON = {
    "asyncio server and client": """
        import asyncio
        async def main():
            async def serve(reader, writer):
                writer.write(await reader.readline()); await writer.drain(); writer.close()
            server = await asyncio.start_server(serve, "127.0.0.1", 0)
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            writer.write(b"hello\\n")
            assert await reader.readline() == b"hello\\n"
            server.close()
        asyncio.run(main())""",
    "asyncio subprocess": """
        import asyncio
        async def main():
            process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
            assert (await process.communicate())[0] == b"hi\\n"
        asyncio.run(main())""",
    "ipv6 server": """
        import socket
        server = socket.create_server(("::1", 0), family=socket.AF_INET6)
        socket.create_connection(server.getsockname()[:2], 2)""",
    "udp between two sockets": """
        import socket
        one, two = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in "12")
        one.bind(("127.0.0.1", 0))
        two.sendto(b"hi", one.getsockname())
        assert one.recv(9) == b"hi" """,
    "unix socket server": """
        import socket, tempfile, os
        path = tempfile.mkdtemp() + "/s"
        server = socket.socket(socket.AF_UNIX); server.bind(path); server.listen()
        client = socket.socket(socket.AF_UNIX); client.connect(path)
        server.accept()[0].sendall(b"hi")
        assert client.recv(9) == b"hi" """,
    "abstract unix socket server": """
        import socket
        server = socket.socket(socket.AF_UNIX); server.bind("\\0mine"); server.listen()
        socket.socket(socket.AF_UNIX).connect("\\0mine")""",
    "descriptors over a socket pair": """
        import socket, os
        one, two = socket.socketpair()
        socket.send_fds(one, [b"x"], [0])
        assert len(socket.recv_fds(two, 1, 1)[1]) == 1""",
    "http server and client": """
        import http.server, threading, urllib.request
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        assert urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/", timeout=5).status == 200""",
    "multiprocessing fork": """
        import multiprocessing as m
        with m.get_context("fork").Pool(2) as pool: assert pool.map(abs, [-1]) == [1]""",
    "multiprocessing spawn": """
        import multiprocessing as m
        if __name__ == "__main__":
            with m.get_context("spawn").Pool(1) as pool: assert pool.map(abs, [-1]) == [1]""",
    "multiprocessing forkserver": """
        import multiprocessing as m
        if __name__ == "__main__":
            with m.get_context("forkserver").Pool(1) as pool: assert pool.map(abs, [-1]) == [1]""",
    "multiprocessing manager": """
        import multiprocessing as m
        if __name__ == "__main__":
            with m.Manager() as manager: assert manager.dict(a=1)["a"] == 1""",
    "shared memory": """
        from multiprocessing import shared_memory
        one = shared_memory.SharedMemory(create=True, size=10); two = shared_memory.SharedMemory(one.name)
        one.buf[0] = 7; assert two.buf[0] == 7
        two.close(); one.close(); one.unlink()""",
    "semaphores": """
        import multiprocessing as m
        lock = m.Lock(); event = m.get_context("fork").Event()
        p = m.get_context("fork").Process(target=event.set); p.start(); assert event.wait(5); p.join()""",
    "threads": """
        import threading
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(4) as pool: assert sum(pool.map(abs, range(-9, 0))) == 45""",
    "sqlite cache": """
        import sqlite3
        for _ in range(2):
            with sqlite3.connect("cache.db") as database:
                database.execute("pragma journal_mode=wal")
                database.execute("create table if not exists t (x)"); database.execute("insert into t values (1)")
        assert database.execute("select count(*) from t").fetchone() == (2,)""",
    "temporary files": """
        import tempfile, os
        with tempfile.NamedTemporaryFile() as file: file.write(b"x"); assert os.path.exists(file.name)
        with tempfile.TemporaryDirectory() as place: open(place + "/a", "w").write("x")""",
    "files of the project": """
        import os, pathlib
        pathlib.Path("made/deep").mkdir(parents=True); pathlib.Path("made/deep/a").write_text("x")
        os.rename("made/deep/a", "made/b"); assert pathlib.Path("made/b").read_text() == "x"
        os.unlink("made/b"); os.rmdir("made/deep"); os.rmdir("made"); assert not os.path.exists("made")
        pathlib.Path("present.txt").write_text("changed"); assert pathlib.Path("present.txt").read_text() == "changed"
        os.chmod("present.txt", 0o600); os.unlink("present.txt"); assert not os.path.exists("present.txt")""",
    "the home directory": """
        import pathlib
        place = pathlib.Path.home() / ".cache" / "thing"; place.mkdir(parents=True); (place / "x").write_text("y")""",
    "a terminal of its own": """
        import os, pty
        pid, master = pty.fork()
        if pid == 0: os.execvp("sh", ["sh", "-c", "test -t 0 && echo yes"])
        assert b"yes" in os.read(master, 100); os.waitpid(pid, 0)""",
    "openpty": "import os; master, slave = os.openpty(); assert os.ttyname(slave).startswith('/dev/pts/')",
    "signals to itself": """
        import os, signal
        seen = []
        signal.signal(signal.SIGUSR1, lambda *a: seen.append(1)); os.kill(os.getpid(), signal.SIGUSR1); assert seen
        signal.signal(signal.SIGALRM, lambda *a: seen.append(2))
        signal.setitimer(signal.ITIMER_REAL, 0.01); signal.pause()
        assert seen == [1, 2]""",
    "signals to children": """
        import subprocess, signal
        child = subprocess.Popen(["sleep", "60"]); child.send_signal(signal.SIGTERM); assert child.wait() == -15""",
    "timeouts": """
        import subprocess
        try: subprocess.run(["sleep", "9"], timeout=0.05)
        except subprocess.TimeoutExpired: pass
        else: raise SystemExit(1)""",
    "process trees": """
        import subprocess
        done = subprocess.run("sh -c 'sh -c \\"echo deep\\" | cat'", shell=True, capture_output=True)
        assert done.stdout == b"deep\\n" """,
    "reads of /proc": """
        import os
        assert str(os.getpid()) == os.path.basename(os.path.realpath("/proc/self"))
        for name in ("status", "maps", "cmdline", "cgroup", "mountinfo", "limits"): open(f"/proc/self/{name}").read()
        for name in ("meminfo", "cpuinfo", "stat", "uptime"): open(f"/proc/{name}").read()
        os.cpu_count(); os.sched_getaffinity(0)""",
    "interfaces": "import socket; assert 'lo' in [name for _, name in socket.if_nameindex()]",
    "names of this machine": """
        import socket
        assert socket.getaddrinfo("localhost", 80); assert socket.gethostname()""",
    "who runs this": "import os, pwd; pwd.getpwuid(os.getuid()); os.getgroups()",
    "devices": """
        import os
        open("/dev/null", "w").write("x"); assert open("/dev/urandom", "rb").read(4)
        assert open("/dev/zero", "rb").read(1) == b"\\0"
        os.urandom(8)""",
    "epoll, eventfd and inotify": """
        import select, os, ctypes
        queue = select.epoll(); number = os.eventfd(1); queue.register(number, select.EPOLLIN); assert queue.poll(1)
        assert ctypes.CDLL(None).inotify_init() >= 0""",
    "a program in memory": "import os; n = os.memfd_create('x'); os.write(n, b'x'); assert os.fstat(n).st_size == 1",
    "threads that trace each other": """
        import faulthandler, sys, subprocess
        faulthandler.dump_traceback(file=open("/dev/null", "w"))""",
    "standard output": "import sys; sys.stdout.write('x' * 200_000); sys.stderr.write('y')",
}

COMMANDS = {
    "git": ["git", "--no-pager", "-c", "safe.directory=*", "status", "--short"],
    "pip": [sys.executable, "-m", "pip", "--version"],
    "node": ["node", "-e", "require('http').createServer((q,s)=>s.end('x')).listen(0,'127.0.0.1',function(){"
             "require('http').get({port:this.address().port},r=>{r.resume();r.on('end',()=>process.exit(0))})})"],
    "bash": ["bash", "-c", "set -e; x=$(mktemp); echo hi | tee $x | cat; test -s $x; (sleep 0.01 &); wait; kill -0 $$"],
    "find and tar": ["bash", "-c", "tar cf - . | tar tf - > /dev/null"],
    "ps": ["bash", "-c", "ps aux | grep -q ps"],
    "a compiler": ["bash", "-c", "echo 'int main(){return 0;}' > m.c && cc m.c -o m && ./m"],
    "pytest": [sys.executable, "-m", "pytest", "-q", "-p", "no:replaykit", "-p", "no:randomly",
               "--basetemp=base", "test_it.py"],
}  # fmt: skip


@pytest.fixture
def place(full: None, tmp_path: Path) -> Path:
    """A small project, with a home directory beside it."""
    project, home = tmp_path / "project", tmp_path / "home"
    project.mkdir()
    home.mkdir()
    (project / "present.txt").write_text("present")
    (project / "test_it.py").write_text("def test_it(tmp_path):\n    (tmp_path / 'x').write_text('y')\n")
    return project


def _run(place: Path, *command: str) -> tuple[int, str, Sandbox]:
    home = place.parent / "home"
    environment = {**os.environ, "HOME": str(home)}
    sandbox = Sandbox(Policy(project=place, home=home))
    code, printed = run(sandbox, *command, cwd=place, env=environment)
    return code, printed, sandbox


@sampled("name", PYTHON, count=3, start=1)
def test_python_programs_run_unharmed(place: Path, name: str) -> None:
    import textwrap

    code = textwrap.dedent(PYTHON[name]).strip()
    (place / "program.py").write_text(code)

    status, printed, sandbox = _run(place, sys.executable, "-X", "faulthandler", "program.py")

    with sandbox:
        assert status == 0, printed
        assert sandbox.report().stopped == ()
        assert (place / "present.txt").read_text() == "present"


@sampled("name", COMMANDS, count=2, start=1)
def test_commands_run_unharmed(place: Path, name: str) -> None:
    program = "cc" if name == "a compiler" else COMMANDS[name][0]
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    if name == "git":
        os.system(f"git init -q {place}")

    status, printed, sandbox = _run(place, *COMMANDS[name])

    with sandbox:
        assert status == 0, printed
        assert sandbox.report().stopped == ()
