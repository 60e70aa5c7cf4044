"""The command line: one file per verb. Parse, call the API, hand the value to `report`.

A verb's module is imported when the verb runs. Modules that `replay` imports keep imports that a plain replay does
not need inside their functions, since start-up is most of what one replay takes.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from typing import Any

import click

from replaykit import __version__
from replaykit.cli.lazy_group import LazyGroup
from replaykit.cli.renames import SYNONYMS, current_words
from replaykit.errors import ExitCode, ReplayKitError
from replaykit.terminal import guarded_output, style

GARBAGE_AT = 100_000
"""Objects, until garbage is looked for: starting makes fewer, and all of them stay."""
_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EIO}
)
"""Errors of the machine, not of ReplayKit: a full disk, a foreign file, too many open files."""
_READER_HAS_GONE = 141  # what a shell says of a program that a closed pipe ended

SECTIONS = {
    "Capture": {
        "record": "Run a program and record everything it does as one run.",
        "mcp": "Record or replay an MCP server, between a client and the server.",
    },
    "Bring in": {
        "import": "Import runs from trace files of any vendor, or from a tracing service.",
        "serve": "Receive OTLP traces and store each one as a run.",
        "export": "Write a run to a file that other tools can read.",
    },
    "Test": {
        "scaffold": "Turn a failed trace or recorded run into a case.",
        "lint": "Check cases for schema errors, missing files and contradictions.",
        "replay": "Run an agent against cases: does the failure still happen?",
        "retape": "Record new answers for an agent that makes new calls.",
        "prove": "Prove that a case fails a broken agent and passes a fixed one.",
        "golden": "Save a run as a golden trace that later runs must match.",
        "judge": "Show or collect the judges' answers about a case.",
        "contract": "Test an agent against a contract, with and without faults.",
        "chaos": "Test an agent under faults in its tools, models and context.",
        "ci": "Run everything the configuration names, and give a pipeline one result.",
    },
    "Travel": {
        "runs": "List recorded runs, newest first.",
        "show": "Show a run: its input, its events and how it ended.",
        "view": "Look at runs, replays, cases and results of ci in the browser.",
        "resume": "Continue a run from one of its steps, unchanged.",
        "fork": "Continue a run from one of its steps, with something changed.",
        "compare": "Compare two runs and show where they first differ.",
        "debug": "Step through a run, and fork from any step.",
    },
    "Keep safe": {
        "redact": "Replace secrets and personal data in files, cases and runs.",
    },
    "Project": {
        "init": "Set up a project: configuration, cases and store.",
        "doctor": "Check this machine and project, and say how to fix what is wrong.",
        "demo": "Watch the whole loop run offline, in seconds.",
        "examples": "List the examples, or copy one into your directory.",
        "store": "Look after the store: stats, verify, prune, keep, backup, restore.",
    },
}
"""Each command and the first line of its help, in the sections of `--help`, which imports none of them."""
REFERENCE = {"help": "Look up assertions, formats and schemas, or a command."}
"""The command that the last lines of `--help` describe."""
VERBS = {name: summary for summaries in (*SECTIONS.values(), REFERENCE) for name, summary in summaries.items()}


class Verbs(LazyGroup):
    """The commands of `replaykit`; former names still work, with a note that gives the current ones."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        current, notes = current_words(args)
        for note in notes:
            _say(f"note: {note}")
        return super().resolve_command(ctx, current)


@click.group(
    cls=Verbs,
    package="replaykit.cli",
    sections=SECTIONS,
    unlisted=REFERENCE,
    epilog="Look up: replaykit help assertions, formats, schema, completion, or any command",
    synonyms=SYNONYMS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error (or set REPLAYKIT_DEBUG=1).")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Turn failed agent runs into regression tests that replay.

    \b
    See it work:              replaykit demo
    Failed trace → case:      replaykit scaffold TRACE --out cases/NAME
    Does it still fail?       replaykit replay cases/NAME --agent module:function

    Exit codes: 0 passed, 1 the agent failed, 2 wrong usage, 3 could not do it, 5 nothing selected.
    """
    ctx.with_resource(guarded_output())
    ctx.color = True  # click removes nothing: what is printed passes `guarded_output`, which decides about colours


@cli.result_callback()
@click.pass_context
def _end(ctx: click.Context, /, code: int | None, **_: Any) -> None:
    """Exit with the code that a verb returned."""
    ctx.exit(code or ExitCode.PASSED)


def main() -> None:
    """The `replaykit` command, in a process of its own."""
    gc.set_threshold(GARBAGE_AT)
    gc.enable()
    code = run(sys.argv[1:])
    gc.freeze()  # the process ends: nobody looks once more for garbage in all that it has loaded
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run one command line; gives its exit code. Whatever is printed is visible text."""
    with guarded_output():
        return _run(arguments)


def _run(arguments: list[str]) -> int:
    debug = "--debug" in arguments or os.environ.get("REPLAYKIT_DEBUG", "").lower() in ("1", "true", "yes", "on")
    try:
        code = cli.main(args=arguments, prog_name="replaykit", standalone_mode=False)
    except click.UsageError as error:
        _say(_usage_text(error))
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except ReplayKitError as error:
        _trace(debug)
        _say(_error_text(str(error)))
        return error.exit_code
    except SystemExit as exit_:
        # click leaves like this when whoever read our output has gone: no verdict, and no failure of an agent
        gone = "PacifyFlushWrapper" in type(sys.stdout).__name__
        if gone:
            return _READER_HAS_GONE
        return int(exit_.code or 0)
    except Exception as error:  # noqa: BLE001 (the outermost edge)
        _trace(debug)
        if isinstance(error, OSError) and error.errno in _OF_THE_MACHINE:
            where = error.filename or "a file could not be read or written"
            _say(f"{style('error', fg='red', bold=True)}: {where}: {error.strerror}")
            return ExitCode.CANNOT
        _say(f"internal error: {type(error).__name__}: {error}")
        if not debug:
            _say("This is a bug in ReplayKit. See where: replaykit --debug …")
        return ExitCode.CANNOT
    return int(code or 0)


def _error_text(message: str) -> str:
    from replaykit.report.layout import fit  # only an error needs it

    return fit(f"{style('error', fg='red', bold=True)}: {message}")


def _usage_text(error: click.UsageError) -> str:
    """Return what is wrong with a command line, how to call the command, and where its help is."""
    message = error.format_message()
    if message.startswith("Usage: "):  # a group without a command: its whole help
        return message
    text = _error_text(message[:1].lower() + message[1:].removesuffix("."))  # as errors of our own are written
    if error.ctx is None:
        return text
    return f"{text}\n{error.ctx.get_usage()}\nSee: {error.ctx.command_path} --help"


def _say(text: str) -> None:
    click.echo(text, err=True, color=True)


def _trace(debug: bool) -> None:
    if debug:
        import traceback

        _say(traceback.format_exc())
