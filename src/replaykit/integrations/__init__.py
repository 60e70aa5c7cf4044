"""Integrations: ReplayKit inside other people's frameworks, each an extra of its own.

A framework is imported by its own module here and by nothing else. An integration translates; it decides nothing.
"""
