"""Viewer: runs, replays, cases, comparisons and suites in the browser, served on loopback or as one file.

Knows how to turn values into documents for the page (`page_types`). Draws nothing: that happens in `static`.
"""
