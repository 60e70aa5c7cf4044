"""Formats: turn foreign traces into runs. `core` is shared; each format has one module or package.

`core.registry` lists the formats in the order in which a file is tried with them, and `files` tries them. Every error
in a file names its line. Data that the model of a run has no place for is kept and named, never dropped. Knows the
model only: no cases, no stores, no terminals.
"""
