"""Importing: runs come in, from trace files and from LangSmith, into the store and as session files.

Knows importers, the store, cases and the project. Fetches over the network, and runs nothing.
"""
