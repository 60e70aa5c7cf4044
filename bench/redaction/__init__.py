"""A labelled corpus of made-up secrets and personal data, and what finders of such data are measured by.

Everything is generated from a seed. The package imports nothing of ReplayKit; see README.md beside this file.
"""
