"""Receiver: writes OTLP over HTTP to disk, and turns the traces into runs in the store.

A request is acknowledged once its spans are in the spool (`spool`); it waits for nothing else. The trace processor
(`trace_processor`) turns finished traces into runs. The server (`server`) is the only part that knows HTTP. Knows
stores and importers; knows nothing of reports or terminals.
"""
