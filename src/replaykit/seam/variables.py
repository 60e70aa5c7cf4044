"""The environment variables by which the processes of a run know that they belong to it."""

SESSION = "REPLAYKIT_SESSION"
"""Names the directory of the plan for the processes of a program, or of a replayed agent."""
RECORDED_TREE = "REPLAYKIT_RECORDED_TREE"
"""The same, for the processes that an agent starts while `rk.record` records it."""
SANDBOX = "REPLAYKIT_SANDBOX"
"""Tells processes in a sandbox its level, and each other: `LEVEL:ID`."""
