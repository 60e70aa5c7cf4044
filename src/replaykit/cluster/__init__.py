"""Cases on other processes and machines: a bundle of the project, chunks of cases, and the engines that run them.

Schedules nothing itself: an engine does. Knows candidates and cases; knows nothing of trials, reports and terminals.
"""
