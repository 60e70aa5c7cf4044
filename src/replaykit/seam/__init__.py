"""The seam: the one place where a call of the agent passes on its way to the world.

`through` (and its async and streaming forms) takes a call and a way to do it live, and gives back the outcome;
a handler decides whether it is served or done, and is told how it ended. Decorators, transports and adapters
only translate their world into that. Knows the model; knows nothing of stores, tapes or cases.
"""
