"""Receiver: OTLP over HTTP, onto disk, and from there into the store as runs.

A request is acknowledged once its spans are in the spool (`spool`); nothing is made of them in the request. The trace
processor (`trace_processor`) makes runs of traces that have come to rest. The server (`server`) is the only part that
knows HTTP. Knows stores and importers; knows nothing of reports or terminals.
"""
