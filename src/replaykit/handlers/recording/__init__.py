"""Recording: the handler that lets every call happen and writes down its outcome.

Knows the seam and the store; knows nothing of replay, cases or terminals.
"""
