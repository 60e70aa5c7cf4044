"""Consent: what the person who runs a replay lets it do outside of the recorded world."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from msgspec import Struct

from replaykit.model.isolation import IsolationLevel


class Consent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a replay may do for real. Only command-line flags and arguments of the Python API set this, never a file."""

    live: tuple[str, ...] = ()
    """Names of tools, models and requests that may be called for real; `*` is any."""
    connect: tuple[str, ...] = ()
    """Addresses that may be reached: `HOST:PORT`, or the path of a unix socket."""
    write: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""
    isolation: IsolationLevel = IsolationLevel.FULL
    """The highest level that is used, where the machine offers it."""

    @property
    def highest_level(self) -> IsolationLevel:
        """The level to ask for. A tool that is called for real has to reach what it is for."""
        return min(self.isolation, IsolationLevel.PROCESS, key=_strength) if self.live else self.isolation


def _strength(level: IsolationLevel) -> int:
    return level.strength


NO_CONSENT = Consent()
