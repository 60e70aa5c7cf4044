"""Exports: a run in other formats, one module per format.

Returns values and writes no files. Knows the model, and how telemetry represents a run.
"""
