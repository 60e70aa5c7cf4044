"""Figures of one finder by kind: `python -m bench.redaction --half tuning --misses`, from the project's directory."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

from .figures import parse_arguments, report

if __name__ == "__main__":
    options = parse_arguments()
    sys.path.insert(0, str(Path(__file__).parents[1]))  # as for all programs of the benchmarks
    print(report(importlib.import_module(f"systems.{options.system}").finder(), options))
