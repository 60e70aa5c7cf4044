"""Judges: who decides what no assertion can, and their verdicts, stored beside the case.

Nothing here is imported by a name that a file says, and nothing is asked of a judge in a replay: a replay only
looks up what was answered before.
"""
