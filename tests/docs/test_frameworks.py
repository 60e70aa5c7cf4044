"""docs/frameworks.md: its last program is run, and what it has you write is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from replaykit.integrations import EXTRAS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "frameworks.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_framework_of_your_own_works_as_written(own_directory: Path) -> None:
    Path("mine.py").write_text(BLOCKS[-1])

    done = subprocess.run([sys.executable, "mine.py"], capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr


def test_every_name_that_is_imported_from_an_integration_is_defined_there() -> None:
    imports = re.findall(r"^from replaykit\.integrations\.(\w+) import (.+)$", "\n".join(BLOCKS), re.MULTILINE)

    for module, names in imports:
        source = (ROOT / "src" / "replaykit" / "integrations" / f"{module}.py").read_text(encoding="utf-8")
        for name in names.split(", "):
            assert re.search(rf"^(class|def) {name}\b|^{name} = ", source, re.MULTILINE), (module, name)
    assert len(imports) >= 5


def test_every_extra_that_is_named_is_one() -> None:
    named = set(re.findall(r"pip install '\.\[([\w-]+)\]'", PAGE))

    assert named
    assert named <= set(EXTRAS.values())
