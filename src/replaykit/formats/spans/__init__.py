"""Runs out of spans, whichever format they came in: a dialect reads a span, the tree orders them, `runs` makes the run.

Shared by OTLP, the exports of Langfuse, MLflow, Phoenix and others, and the receiver.
"""
