"""Turn spans into runs, whatever format they came in: a dialect reads a span, `tree` orders them, `runs` makes the run.

Shared by OTLP, the exports of Langfuse, MLflow, Phoenix and others, and the receiver.
"""
