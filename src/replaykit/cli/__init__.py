"""The command line: one file per verb. Parse, call the API, hand the value to `report`.

A verb's module is imported when the verb runs. Modules that `replay` imports keep imports that a plain replay does
not need inside their functions, since start-up is most of what one replay takes.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from typing import Any

import click

from replaykit import __version__
from replaykit.errors import ExitCode, ReplayKitError, nearest
from replaykit.terminal import guarded_output, style

GARBAGE_AT = 100_000
"""Objects, until garbage is looked for: starting makes fewer, and all of them stay."""
_OF_THE_MACHINE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.EIO}
)
"""Errors of the machine, not of ReplayKit: a full disk, a foreign file, too many open files."""
_READER_HAS_GONE = 141  # what a shell says of a program that a closed pipe ended

VERBS = {
    "scaffold": "Make a case from a failed trace file, or from a recorded run.",
    "lint": "Check cases: schema, references, fixtures, contradictions.",
    "replay": "Run a candidate against cases: does the failure still happen?",
    "contract": "Try an agent against a contract: named promises, in good worlds and broken ones.",
    "judge": "Show what judges say about a case, or ask them.",
    "review": "Answer what a case wants judged yourself, about its newest replay.",
    "retape": "Record new answers for a candidate that asks something new.",
    "prove": "Prove that a case can tell a broken agent from a fixed one.",
    "upgrade": "Rewrite cases of an older format in the current one.",
    "chaos": "Try an agent in broken worlds: seeded faults of its tools, models and context.",
    "ci": "Run everything that is configured, and weigh it: one result for a pipeline.",
    "record": "Run a program, and record what it does as one run.",
    "import": "Bring runs in: from trace files of any vendor, or from a service that keeps them.",
    "serve": "Receive traces over OTLP: each becomes a run in the store.",
    "runs": "List recorded runs, newest first.",
    "show": "Show a run: what was asked, what happened, how it ended.",
    "checkpoints": "List the steps of a run that one can stand at.",
    "resume": "Go on from a step of a run, with nothing changed.",
    "fork": "Go on from a step of a run with something changed there.",
    "debug": "Step through a run key by key, and fork from any step.",
    "compare": "Compare two runs: where do their worlds part?",
    "golden": "Make a golden trace of a run: a test that it comes out again.",
    "tree": "Show the family of a run: its parent, its forks, and theirs.",
    "mcp": "Stand between an MCP client and its server: record what they say, or play the server.",
    "export": "Write a run to a file that others can read.",
    "scan": "Look for secrets and personal data in files: a gate for commits and pipelines.",
    "redact": "Replace secrets and personal data in files, cases and recorded runs.",
    "keep": "Tag runs with `keep`: no pruning takes them.",
    "prune": "Take out recorded runs that are past their time, and give the space back.",
    "stats": "Show what the store holds, how it grows, and how runs and replays end.",
    "backup": "Copy the store to a file, whole and checked, while others write.",
    "restore": "Put a backup in the place of the store.",
    "verify": "Check the whole store, and name what is damaged.",
    "doctor": "Show what this machine supports, what ReplayKit finds here, and how to fix what is wrong.",
    "init": "Prepare a project for cases and recordings.",
    "demo": "See the whole loop, offline, in seconds.",
    "assertions": "List what a case can assert, or tell all about one kind.",
    "schema": "Print the JSON Schema of case.yaml.",
}
"""Each verb and the first line of its help, so that `--help` imports none of them."""


class Verbs(click.Group):
    """The verbs, each imported when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in VERBS:
            return None
        command: click.Command = import_module(f"replaykit.cli.{name}").command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise click.UsageError(f"no such verb {args[0]!r}; {nearest(args[0], VERBS)}", ctx)
        return super().resolve_command(ctx, args)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, "-V", "--version", message="%(prog)s %(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error; REPLAYKIT_DEBUG=1 does as well.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Turn failed agent runs into replayable regression cases.

    \b
    Failed trace → case:      replaykit scaffold TRACE --out cases/NAME
    Does it still fail?       replaykit replay cases/NAME --agent module:function
    See it work:              replaykit demo

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
        error.show()
        return ExitCode.USAGE
    except (KeyboardInterrupt, click.Abort):
        _say("interrupted")
        return ExitCode.INTERRUPTED
    except ReplayKitError as error:
        _trace(debug)
        _say(f"{style('error', fg='red', bold=True)}: {error}")
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


def _say(text: str) -> None:
    click.echo(text, err=True, color=True)


def _trace(debug: bool) -> None:
    if debug:
        import traceback

        _say(traceback.format_exc())
