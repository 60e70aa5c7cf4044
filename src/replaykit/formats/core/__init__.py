"""Shared by all formats: reading files (`source`, `fields`, `items`), conversations (`talk`, `messages`), logged calls
of model APIs (`exchanges`, `threads`), and what a run says of itself (`labels`, `totals`, `replayability`).

Knows no format.
"""
