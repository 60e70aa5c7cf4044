"""Shared by all formats: reading files (`source`, `fields`, `registry`), conversations (`talk`, `messages`), logged
calls of model APIs (`exchanges`, `threads`), and statements about a run (`labels`, `replayability`). Knows no single
format.
"""
