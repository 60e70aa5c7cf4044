"""Travel: move inside a run and between runs: checkpoint, resume, fork, compare.

Knows the model, the store, the seam, and the handlers that record and replay; knows nothing of terminals or reports.
"""
