"""MCP: what a client and a server of the Model Context Protocol say to each other, recorded and replayed at the wire.

`messages` reads and writes JSON-RPC, `calls` turns requests into calls at the seam and answers back into messages,
`conversation` follows one connection whatever carries it, `script` gives a recorded answer again. `stdio` and `http`
carry the messages; `config` leads the servers of a configuration file through them. Nothing here knows the SDKs, and no
protocol version: what is not understood is passed on.
"""
