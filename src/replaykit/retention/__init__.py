"""Retention: which runs stay and which go, and what there is to know about all of them.

Decides from summaries, and lets the store act. Knows nothing of terminals, and decodes no event to decide.
"""
