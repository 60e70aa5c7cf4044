"""Repair: check a store for damage, and save what can still be read."""
