"""Receiver: OTLP over HTTP, onto disk, and from there into the store as runs.

What is acknowledged is in the spool (`spool`), and nothing is made of it in the request. The desk (`desk`) makes runs
of traces that have come to rest; the server (`server`) is the only part that knows HTTP. Knows stores and importers;
knows nothing of reports or terminals.
"""
