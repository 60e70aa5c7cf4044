"""Programs: whole programs recorded and replayed from outside, with nothing changed in them.

A program's processes each take part in one run: `plan` says what they are to do, `part` is what one of them records or
is served, `merge` makes the run of the parts, `start` begins all that inside a Python process that knows nothing of
it. `proxy` stands in for processes in other languages. Knows nothing of cases, reports or the command line.
"""
