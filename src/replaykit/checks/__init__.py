"""Checks: assertions about a run, and the verdict that follows from them.

Pure: a finished run goes in, findings come out. Knows nothing of files, cases, candidates or terminals.
"""
