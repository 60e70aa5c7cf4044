"""The store: where runs live.

Turns the model's runs into rows and back, and keeps its promises about them: durable, linear, verified on
read. Knows nothing of agents, cases or terminals, and never decodes a user's payload.
"""
