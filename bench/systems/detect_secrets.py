"""detect-secrets: rules and entropy for secrets in files, all plugins, its default filters."""

from __future__ import annotations

import atexit
import tempfile
from pathlib import Path
from typing import Any

import measurements
from measurements import Numbers
from redaction.measure import Find, Found, accuracy, speed

NAME = "detect-secrets"
DISTRIBUTION = "detect-secrets"

_FIRST = """\
from pathlib import Path
from detect_secrets.core.scan import scan_file
from detect_secrets.settings import default_settings
Path('text.txt').write_text({text!r})
with default_settings(): list(scan_file('text.txt'))
"""


def finder() -> Find:
    """It scans files: its mode for single lines takes every word for a secret."""
    from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
    from detect_secrets.core.scan import scan_file
    from detect_secrets.settings import get_settings

    plugins = get_mapping_from_secret_type_to_class().values()
    get_settings().configure_plugins([{"name": plugin.__name__} for plugin in plugins])
    directory = tempfile.TemporaryDirectory(prefix="detect-secrets-")
    atexit.register(directory.cleanup)
    file = Path(directory.name) / "text.txt"

    def find(text: str) -> list[Found]:
        file.write_text(text, encoding="utf-8", newline="")
        lines = text.splitlines(keepends=True)
        return [_place(secret, text, lines) for secret in scan_file(str(file))]

    return find


def _place(secret: Any, text: str, lines: list[str]) -> Found:
    """Where a finding stands: it names a line and a value, and of a private key the first line alone."""
    before = sum(map(len, lines[: secret.line_number - 1]))
    start = max(text.find(secret.secret_value, before), before)
    end = start + len(secret.secret_value)
    if secret.type == "Private Key":
        end = max(end, text.find("-----END", end))
    return Found(start, end, "ip" if secret.type.startswith("Public IP") else "secret")


def redaction(work: Path) -> Numbers:
    return accuracy(finder())


def redaction_speed(work: Path, size: int) -> Numbers:
    return speed(finder(), size)


def redaction_first(work: Path, text: str) -> Numbers:
    return measurements.start_up(_FIRST.format(text=text), work)
