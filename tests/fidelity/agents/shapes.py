"""Classes that tools of other modules return."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(Enum):
    """How bad an incident is."""

    LOW = 1
    HIGH = 3


@dataclass(frozen=True)
class Incident:
    """Something that went wrong."""

    title: str
    severity: Severity

    @property
    def is_urgent(self) -> bool:
        """True when somebody has to get up."""
        return self.severity is Severity.HIGH
