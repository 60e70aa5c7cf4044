"""Trials: an agent under many conditions, and what that adds up to."""
