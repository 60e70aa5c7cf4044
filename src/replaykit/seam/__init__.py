"""The seam: the one place through which a call of the agent passes on its way to the world.

`through` (and its async and streaming forms) takes a call and a way to do it live, and returns the outcome. A handler
decides whether the call is served or done, and learns how it ended. Decorators, transports and adapters only translate
their world into that. Knows the model; knows nothing of stores, tapes or cases.
"""
