"""Checks: assertions over a run, and the verdict they add up to.

Pure: a finished run goes in, findings come out. Knows nothing of files, cases, candidates or terminals.
"""
