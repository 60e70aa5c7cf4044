"""Trials: run an agent under many conditions, and sum up the results."""
