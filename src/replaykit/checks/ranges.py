"""Ranges: numbers that are neither below nor above."""

from __future__ import annotations


def check_range(least: float | None, most: float | None, *, unit: str = "") -> None:
    """Refuse a range that says nothing, or that nothing is in; `unit` ends the names of its parameters."""
    if least is None and most is None:
        raise ValueError(f"expected `min{unit}`, `max{unit}` or both")
    if least is not None and most is not None and least > most:
        raise ValueError(f"nothing is at least {least:g} and at most {most:g}")


def in_range(value: float, least: float | None, most: float | None) -> bool:
    """True when the number is neither below nor above."""
    return (least is None or value >= least) and (most is None or value <= most)


def range_text(least: float | None, most: float | None) -> str:
    """`at least 2`, `at most 5`, `2 to 5`, `exactly 3`."""
    if least is not None and most is not None:
        if least == most:
            return f"exactly {least:g}"
        return f"{least:g} to {most:g}"
    if least is None:
        return f"at most {most:g}"
    return f"at least {least:g}"
