"""Finders: functions of a project that find secrets and personal data that no pattern describes.

Plugins register them. Recording processes that a command starts import the same plugins, which an environment variable
names.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import TypeAlias

from msgspec import Struct

from replaykit.errors import UsageError
from replaykit.redaction.finding import Hit
from replaykit.redaction.forms import WITH_FORM
from replaykit.redaction.project import MODULES_VARIABLE
from replaykit.redaction.providers import LITERALS
from replaykit.registry import Registry

Finder: TypeAlias = Callable[[str], Iterable[tuple[int, int]]]
"""Takes a text and returns the spans of values to redact."""
FINDERS: Registry[Finder] = Registry("finder")
"""The finders by the kind of value they find."""
RANK = 3
_KIND = re.compile(r"[a-z][a-z0-9-]{1,29}")


class NamedFinder(Struct, frozen=True):
    """A finder, and the kind of value it finds."""

    kind: str
    finder: Finder

    def hits(self, text: str) -> Iterator[Hit]:
        """Yield the finder's hits; raise `UsageError` if it fails, since nothing may be written unchecked."""
        try:
            spans = list(self.finder(text))
        except Exception as error:
            raise self._failure(f"raised {type(error).__name__}: {error}") from error
        for span in spans:
            if not _is_span(span, len(text)):
                raise self._failure(f"returned {span!r:.60} of a text with {len(text)} characters")
            yield Hit(self.kind, *span, RANK, is_own=True)

    def _failure(self, what: str) -> UsageError:
        hint = "Nothing is written until the finder works. Correct it."
        return UsageError(f"the finder {self.kind!r} {what}", hint=hint)


def _is_span(span: object, length: int) -> bool:
    """Return whether this is a valid span in a text of that length."""
    if not isinstance(span, tuple) or len(span) != 2 or not all(type(place) is int for place in span):
        return False
    start, end = span
    return bool(0 <= start < end <= length)


def register_finder(kind: str, finder: Finder) -> None:
    """Register a function whose findings redaction replaces; `kind` appears in the placeholders, such as `staff-id`."""
    if not isinstance(kind, str) or not _KIND.fullmatch(kind) or not callable(finder):
        raise UsageError(
            f"register_finder takes a kind and a function, got {kind!r} and {finder!r}",
            hint="A kind is in lower case, with digits and dashes, as staff-id is.",
        )
    if kind in WITH_FORM or kind in LITERALS or kind == "secret":
        raise UsageError(f"the kind {kind!r} is taken by a built-in rule", hint="Give the finder another one.")
    FINDERS.register(kind)(finder)


def project_finders() -> tuple[NamedFinder, ...]:
    """Return the finders registered in this process, or named by its parent."""
    named = os.environ.get(MODULES_VARIABLE)
    if named and not FINDERS.entered():
        directory, *modules = named.split(os.pathsep)
        for module in modules:
            with importing_from(Path(directory)):
                import_module(module)
    finders = []
    for kind, finder in FINDERS.entered().items():
        finders.append(NamedFinder(kind, finder))
    return tuple(finders)


@contextmanager
def importing_from(directory: Path | None) -> Iterator[None]:
    """Import modules from this directory first. Their output goes to stderr, since stdout is for results."""
    place = None if directory is None else str(directory)
    if place is not None:
        sys.path.insert(0, place)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if place in sys.path:
            sys.path.remove(place)
