"""Chaos: seeded faults behind the seam, attacks on what an agent is told, and mutations of its input.

Knows the model, the wire and the seam; knows nothing of recordings, cases, reports or terminals.
"""
