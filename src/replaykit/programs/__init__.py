"""Programs: record and replay whole programs from outside, without changing them.

All processes of a program share one run. `plan` holds their instructions, `process_log` is what one of them records or
is served, `merge` turns their logs into one run, and `process_startup` starts all that inside a Python process.
`launcher` prepares the environment, and `proxy` records processes in other languages. Knows nothing of cases, reports
or the command line.
"""
