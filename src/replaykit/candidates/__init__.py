"""Run candidates inside a case's frozen world, and collect the evidence they leave.

A candidate is a command, a Python callable or an HTTP endpoint. Whatever it does (crash, hang, write garbage) ends in a
`ReplayResult`. Knows cases and checks; knows nothing of terminals.
"""
