"""The benchmarks are programs, not a package that is installed: this makes the corpus importable for its tests."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

sys.path.insert(0, str(ROOT))
importlib.import_module("bench.redaction.figures")
sys.path.remove(str(ROOT))
