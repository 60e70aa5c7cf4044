"""MCP: record and replay the messages between clients and servers of the Model Context Protocol, at the wire.

`messages` reads and writes JSON-RPC, and turns requests into calls at the seam and outcomes into messages.
`conversation` follows one connection over any transport, and `playback` answers for a recorded server. `stdio` and
`http_endpoint` are the transports; `config` points the servers of a configuration file to them. No SDK or protocol
version matters here: unknown messages are passed on.
"""
