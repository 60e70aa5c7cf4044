"""Formats: foreign traces become runs. `core` is shared by all formats; each format has one module or package here.

`core.registry` lists the formats in the order in which a file is tried with them, and `files` does that. Whatever is
wrong with a file is an error with its line. What the model has no word for is kept and named, never dropped. Knows the
model only; nothing of cases, stores or terminals.
"""
