"""`python -m replaykit`."""

from replaykit.cli import main

if __name__ == "__main__":
    main()
