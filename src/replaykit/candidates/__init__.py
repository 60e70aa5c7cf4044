"""Runners: how a candidate is run inside a case's frozen world, and the evidence it leaves.

A candidate is a command, a Python callable or an HTTP endpoint. Whatever it does (crash, hang, write rubbish)
ends in a `ReplayResult`. Knows cases and checks; knows nothing of terminals.
"""
