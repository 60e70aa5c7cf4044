"""LangGraph: its threads as runs in a ReplayKit store (the extra `langgraph`).

    graph = builder.compile(checkpointer=ReplayKitSaver())

`saver` speaks LangGraph's protocol, `thread` keeps one thread's checkpoints on the log, `story` says how the log reads,
`values` which types may be kept and how.
"""

from replaykit.integrations.langgraph.saver import ReplayKitSaver

__all__ = ["ReplayKitSaver"]
