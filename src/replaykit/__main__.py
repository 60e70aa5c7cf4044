"""`python -m replaykit`."""

import gc

if __name__ == "__main__":
    gc.disable()  # all that is imported here stays; `main` says from when on garbage is looked for
    from replaykit.cli import main

    main()
