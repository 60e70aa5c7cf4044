"""Wire: the HTTP formats of model APIs, as values.

`api_of` finds the API of an exchange; the `ModelApi` reads the exchange as a `ModelCall`, and writes an answer as bytes
that clients accept; `match_key` is the identity of a request, whatever ids the provider minted. Each API has one module
with four functions: read a request, read a body, fold a stream into a body, and unfold it again.

Pure: bytes in, values out. No sockets, files or clocks, and no import of packages above the model. Input is never
trusted: unreadable bytes are reported as a `problem`, never raised.
"""
