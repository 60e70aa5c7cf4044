"""The benchmarks are programs, not a package that is installed: this makes them importable for their tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT))
importlib.import_module("bench.redaction.figures")
importlib.import_module("bench.signatures")
sys.path.remove(str(ROOT))
