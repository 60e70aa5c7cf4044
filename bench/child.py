"""Take one measurement in this process: `child.py SYSTEM MEASUREMENT JSON-PARAMETERS`, JSON on stdout.

Started by `run.py`, once for every measurement and repetition, so that no system inherits another's imports,
caches or garbage.
"""

from __future__ import annotations

import importlib
import json
import shutil
import sys
import tempfile
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

WORK = Path(__file__).parent / ".work"  # beside the code: /tmp may be memory, where fsync costs nothing


def measure(system: str, measurement: str, parameters: dict[str, Any]) -> dict[str, Any]:
    """The numbers of one measurement, or why there are none."""
    module = importlib.import_module(f"systems.{system}")
    try:
        installed = version(module.DISTRIBUTION) if module.DISTRIBUTION else ""
    except PackageNotFoundError:
        return {"missing": "not installed"}
    WORK.mkdir(exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f"{system}-", dir=WORK))
    try:
        return {"version": installed, "numbers": getattr(module, measurement)(work, **parameters)}
    except Exception as error:
        return {"version": installed, "missing": "failed", "why": f"{type(error).__name__}: {error}"}
    finally:
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]))))
