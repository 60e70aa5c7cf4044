"""Storage of runs.

Turns the model's runs into rows and back, and guarantees that they are durable, grow linearly and are verified on read.
Knows nothing of agents, cases or terminals, and never decodes a user's payload.
"""
