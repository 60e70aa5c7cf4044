"""Commands: passwords among the arguments of programs that take them there."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.text_view import View

_VALUE = rb"(?:'([^'\r\n]{1,200})'|\"([^\"\r\n]{1,200})\"|([^\s'\"|;&<>$]{3,200}))"
_ARGUMENTS = rb"[^\r\n|;&]{0,200}?"
_PROGRAMS: dict[bytes, re.Pattern[bytes]] = {
    b"mysql": lazy(rb"\bmysql(?:dump|admin|import|sh|show)?(?:\.exe)?\s" + _ARGUMENTS + rb"(?<=\s)-p" + _VALUE),
    b"mariadb": lazy(rb"\bmariadb(?:-dump|-admin)?\s" + _ARGUMENTS + rb"(?<=\s)-p" + _VALUE),
    b"sshpass": lazy(rb"\bsshpass\s" + _ARGUMENTS + rb"-p\s{0,4}" + _VALUE),
    b"redis-cli": lazy(rb"\bredis-cli\s" + _ARGUMENTS + rb"(?<=\s)(?:-a|--pass)\s{1,4}" + _VALUE),
}
PROGRAMS = tuple(_PROGRAMS)
"""One of these is in every such command."""


def command_hits(view: View) -> Iterator[Hit]:
    """The passwords in `mysql -pX`, `sshpass -p X` and `redis-cli -a X`."""
    for program, form in _PROGRAMS.items():
        if program not in view.low:
            continue
        for found in form.finditer(view.flat):
            group = next(number for number in (1, 2, 3) if found[number] is not None)
            if not _is_stand_in(found[group]):
                yield Hit("secret", *found.span(group), 2)


def _is_stand_in(value: bytes) -> bool:
    """`$PASSWORD`, `<password>`, `{password}`, `****`."""
    return value[:1] in b"$<{[" or not value.strip(b"*x.") or value.lower() in (b"password", b"secret")
