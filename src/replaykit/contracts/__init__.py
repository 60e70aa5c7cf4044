"""Contracts: named invariants of an agent, the conditions they apply under, and their score."""
