"""Isolation: run a process tree that the Linux kernel confines, without privileges.

Knows nothing of the product but its errors. Everything happens in child processes: the calling process never changes.
The values of `policy` exist on every system, the rest only on Linux.
"""

from __future__ import annotations

import sys

from replaykit.isolation.policy import CHANNELS, Level, Policy, Report, Stopped, Written

if sys.platform == "linux":
    from replaykit.isolation.common import Common
    from replaykit.isolation.copies import copy_project
    from replaykit.isolation.sandbox import IsolationFailed, Sandbox
    from replaykit.isolation.support import Support, support

__all__ = [
    "CHANNELS",
    "Common",
    "IsolationFailed",
    "Level",
    "Policy",
    "Report",
    "Sandbox",
    "Stopped",
    "Support",
    "Written",
    "copy_project",
    "support",
]
