"""The model: what happened in a run, as data.

Pure: no files, sockets, clocks, randomness or globals enter here, and nothing of the other rooms.
"""
