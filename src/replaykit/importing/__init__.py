"""Importing: runs come in, from trace files and from services, into the store, as session files and as cases.

Knows importers, the store, cases and the project. Fetches over the network, and runs nothing.
"""
