"""The model: a recorded run and everything said about it, as plain data.

Pure: no files, sockets, clocks, randomness or globals. Imports no other package of ReplayKit but `errors`.
"""
