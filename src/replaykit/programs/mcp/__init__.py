"""MCP: the messages between a client and a server of the Model Context Protocol, recorded and replayed at the wire.

`messages` reads and writes JSON-RPC, and turns requests into calls at the seam and outcomes back into messages;
`conversation` follows one connection whatever its transport, `playback` answers for a recorded server. `stdio` and
`http_endpoint` are the transports; `config` points the servers of a configuration file to them. Nothing here knows the
SDKs or a protocol version: unknown messages are passed on.
"""
