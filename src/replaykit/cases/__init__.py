"""Cases: a failure as a directory in git, with its scenario, frozen outcomes, signatures and assertions.

Reads untrusted files: nothing in them is executed, imported or followed out of the case's directory, and every flaw is
an error with file and line. Knows nothing of candidates, reports or terminals.
"""
