"""Recording: the handler that lets every call happen and writes down how it ended.

Knows the seam and the store; knows nothing of replay, cases or terminals.
"""
