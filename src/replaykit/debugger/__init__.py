"""Debugger: step through a run in a terminal, edit what happened, and fork from there.

`navigation` holds the position in the run, `screen` and `pages` draw it, and `app` reads the keys.
"""
