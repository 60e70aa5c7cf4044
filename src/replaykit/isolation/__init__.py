"""Isolation: run a process tree that the Linux kernel keeps shut, without privileges.

Knows the errors and nothing else of the product. Everything happens in children: the calling process never changes.
The values of `policy` are there on every system, the rest on Linux alone.
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
