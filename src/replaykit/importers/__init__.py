"""Importers: foreign traces become runs, one file per format.

Reads files that others wrote: whatever is wrong with one is an error with its line, and what has no word in the
model is kept and named, never dropped. Knows the model only; nothing of cases, stores or terminals.
"""
