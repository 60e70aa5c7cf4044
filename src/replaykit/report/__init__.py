"""Reports: values of the other rooms as text for people and JSON for programs.

Decides how things look, never what they mean; writes to no terminal itself.
"""
