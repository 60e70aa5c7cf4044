"""Retention: decide which runs are deleted, and show statistics of all of them.

Decisions rest on summaries, without decoding an event; the store carries them out. Knows nothing of terminals.
"""
