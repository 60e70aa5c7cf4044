"""Replay: serve a run's recorded outcomes to a candidate.

Knows the model and the seam; knows nothing of reports, terminals or pytest.
"""
