"""The command `replaykit`, and `python -m replaykit`. A Ctrl-C is met from the first line on."""

import gc
import sys

_INTERRUPTED = 130


def main() -> None:
    """Run the command line, and end the process with its exit code."""
    try:
        gc.disable()  # all that is imported here stays; `cli.main` says from when on garbage is looked for
        from replaykit import cli  # noqa: PLC0415 (takes long, so that a Ctrl-C may well come meanwhile)

        cli.main()
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
