"""Project: `replaykit.yaml` (or a `flakestorm.yaml`) as one frozen value, and the cases and sessions it selects.

It runs nothing and imports nothing that a file names. The runner that needs an agent does: the configuration belongs to
the user, as a command line does.
"""
