"""Intake: bring runs from files, services and the OTLP receiver into the store, as session files and as cases.

Knows formats, the store, cases and the project. Fetches over the network, and executes nothing.
"""
