"""Patterns that are compiled when they are first needed: most texts need few of them, and compiling takes longer."""

from __future__ import annotations

import re
from typing import AnyStr, cast

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class _Lazy:
    """Stands for a compiled pattern; its methods become those of the pattern on the first use of one."""

    def __init__(self, pattern: Any, flags: int) -> None:
        self._pattern = pattern
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(self._pattern, self._flags)
        for method in ("search", "match", "fullmatch", "findall", "finditer", "sub"):
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def lazy(pattern: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """The pattern, compiled on its first use."""
    return cast("re.Pattern[AnyStr]", _Lazy(pattern, flags))
