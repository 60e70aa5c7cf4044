"""Verification and repair of damaged stores."""
