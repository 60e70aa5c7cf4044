"""Wire: the HTTP formats of model APIs, as values.

`api_of` says which API an exchange speaks; the `Api` reads the exchange as a `ModelCall` and writes an answer back
as bytes a client accepts; `match_key` says what a request asks for, whatever ids the provider minted. One file per
API, and each knows four things: how a request asks, how a body tells, how a stream folds into a body, and back.

Pure: bytes in, values out. No sockets, files or clocks, and nothing of the rooms above the model. What others wrote
is never trusted: unreadable bytes are told as a `problem`, never raised.
"""
