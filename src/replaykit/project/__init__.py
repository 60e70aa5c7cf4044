"""Project: `replaykit.yaml` (or a `flakestorm.yaml`) as one frozen value, and the cases and sessions it leads to.

It runs nothing and imports nothing that a file names: the runner that needs an agent does that, since the
configuration is the user's own, as a command line is.
"""
