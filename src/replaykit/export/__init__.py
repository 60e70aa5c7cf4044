"""Exports: a run in other forms, one file per form.

Writes values, never files; knows the model, and what telemetry makes of a run.
"""
