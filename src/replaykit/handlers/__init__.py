"""Handlers: what happens to a call behind the seam.

`recording` performs the call and writes it down, `replay` serves the recorded outcome, and `chaos` injects faults.
They know the model, the seam and the store, and nothing of cases, reports or terminals.
"""
