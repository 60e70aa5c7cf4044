"""The pages in docs/guides, followed word by word: files are written, commands run, and their output is compared.

A page is read like this:

- A block with a file goes into the file that the paragraph before it names at its end: "Save this as `agent.py`:".
  A `diff` block changes the lines of such a file.
- A `bash` block is typed into one shell, which stays open for the whole page, command by command. Each has to end
  with 0, but for the last of a block if the prose after it says another code ("exits with 1", "the exit code is 1").
- A `text` block after commands is what they print on a terminal. In one that begins with `$`, the lines with `$` are
  typed in, and the others are what they print. `…` stands for any text in a line, and on a line of its own for any
  lines. Times, ids and durations may differ.
- Lines that are indented are commands that are not run.
"""

from __future__ import annotations

import difflib
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType, TracebackType
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
COLUMNS = 100
TIME_LIMIT_S = 120
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE_NAME = re.compile(r"`([\w./-]+)`[^`]*:$")
EXIT_CODE = re.compile(r"\bexit(?:s with| code is)\s+(\d+)")


class Block(NamedTuple):
    """A fenced block of a page, with the prose around it."""

    language: str
    text: str
    before: str
    after: str

    @property
    def file(self) -> str | None:
        """The file that the paragraph before the block names."""
        if self.language in ("bash", "text"):
            return None
        named = FILE_NAME.search(self.before.strip().rpartition("\n\n")[2])
        return named[1] if named else None

    @property
    def commands(self) -> list[str]:
        joined = re.sub(r"\\\n\s*", "", self.text)
        return [line for line in joined.splitlines() if line.strip()]

    @property
    def exit_code(self) -> int:
        """The code that the last command of the block ends with, according to the prose after it."""
        said = EXIT_CODE.search(self.after)
        return int(said[1]) if said else 0


def blocks(page: str) -> list[Block]:
    """Return the blocks of a page; the prose after commands is the prose after their output."""
    parts = BLOCK.split(page)
    found: list[Block] = []
    for index in range(1, len(parts), 3):
        language, text, after = parts[index : index + 3]
        if language == "text" and found and not found[-1].after.strip():
            found[-1] = found[-1]._replace(after=after)
        found.append(Block(language, text, parts[index - 1], after))
    return found


def commands_not_run(page: str) -> list[str]:
    """Return the commands that are indented."""
    return re.findall(r"^    (\S.*)$", BLOCK.sub("", page), re.MULTILINE)


def follow(page: str, directory: Path, **variables: str) -> None:
    """Do what a page says in a directory, and raise an AssertionError where something comes out otherwise."""
    with Shell(directory, variables) as shell:
        printed = ""
        for block in blocks(page):
            if block.language == "bash":
                printed = _type_in(shell, block)
            elif block.text.startswith("$ "):
                _type_in_and_compare(shell, block)
            elif block.language == "text":
                assert_shown(block.text, printed)
            else:
                _write(block, directory)


def assert_shown(expected: str, printed: str) -> None:
    """Compare what a page shows with what was printed."""
    wanted, seen = _steady(expected), _steady(printed)
    if not re.fullmatch(_pattern(wanted), seen):
        difference = difflib.unified_diff(
            wanted.splitlines(), seen.splitlines(), "the page", "the terminal", lineterm=""
        )
        raise AssertionError("\n".join(["the page shows something else", *difference]))


def _type_in(shell: Shell, block: Block) -> str:
    printed = ""
    codes = [0] * (len(block.commands) - 1) + [block.exit_code]
    for command, code in zip(block.commands, codes, strict=True):
        output, ended_with = shell.run(command)
        assert ended_with == code, f"{command}\nended with {ended_with} and not with {code}:\n{output}"
        printed += output
    return printed


def _type_in_and_compare(shell: Shell, block: Block) -> None:
    printed = ""
    for line in block.text.splitlines():
        if line.startswith("$ "):
            output, _ = shell.run(line.removeprefix("$ "))
            printed += f"{line}\n{output}"
    assert_shown(block.text, printed)


def _write(block: Block, directory: Path) -> None:
    assert block.file, f"the prose before this block names no file:\n{block.text}"
    path = directory / block.file
    path.parent.mkdir(parents=True, exist_ok=True)
    if block.language != "diff":
        path.write_text(block.text, encoding="utf-8")
        return
    lines = block.text.splitlines()
    before = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("+"))
    after = "".join(f"{line[1:]}\n" for line in lines if not line.startswith("-"))
    text = path.read_text(encoding="utf-8")
    assert text.count(before) == 1, f"{block.file} does not hold these lines once:\n{before}\n{text}"
    path.write_text(text.replace(before, after), encoding="utf-8")


def _pattern(text: str) -> str:
    lines = []
    for line in text.splitlines():
        if line.strip() == "…":
            lines.append(r"(?:.*\n)+?")
        else:
            lines.append(".*".join(map(re.escape, line.split("…"))) + r"\n")
    return "".join(lines)


def _steady(text: str) -> str:
    """Return the text with fixed times and ids, and without what depends on their width."""
    lines = []
    for line in text.splitlines():
        lines.append(re.sub(r" {2,}", "  ", _screens.steady(line)))
    return "\n".join(lines).strip("\n") + "\n"


def load_tool(name: str) -> ModuleType:
    """Load a script of `tools`, whose file has no suffix."""
    loader = SourceFileLoader(name, str(ROOT / "tools" / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[name] = module  # its dataclasses look it up
    loader.exec_module(module)
    return module


class Shell:
    """A shell on a terminal of its own."""

    def __init__(self, directory: Path, variables: dict[str, str]) -> None:
        self._screen, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=directory,
            env=_environment(directory, variables),
            stdin=subprocess.PIPE,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """End the shell, and what a page has left running in it."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._screen)
        assert self._process.stdin is not None
        self._process.stdin.close()

    def run(self, command: str) -> tuple[str, int]:
        """Return what a command prints, and its exit code."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{{ {command}\n}} < /dev/null; printf '\\001%d\\001' $?\n".encode())
        self._process.stdin.flush()
        seen = b""
        for part in self._parts(command):
            seen += part
            if ended := re.fullmatch(rb"(.*)\x01(\d+)\x01", seen, re.DOTALL):
                return _screens.plain(ended[1].decode()), int(ended[2])
        raise AssertionError(f"{command}\nended the shell:\n{seen.decode()}")

    def _parts(self, command: str) -> Iterator[bytes]:
        deadline = time.monotonic() + TIME_LIMIT_S
        while True:
            ready, _, _ = select.select([self._screen], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"{command}\ndid not end within {TIME_LIMIT_S} seconds"
            try:
                yield os.read(self._screen, 65536)
            except OSError:  # how Linux says that the other side has closed
                return


def _environment(directory: Path, variables: dict[str, str]) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_"))}
    return {**kept, "PATH": path, "PYTHONPATH": "", "TERM": "xterm", "COLUMNS": str(COLUMNS), **variables}


_screens = load_tool("screens")
