"""Run cases on other processes and machines: a bundle of the project, chunks of cases, and engines that run them.

Scheduling is left to the engine. Knows candidates and cases; knows nothing of trials, reports and terminals.
"""
