"""Contracts: named invariants of an agent, the conditions they hold under, and their score."""
