"""Consent: what the person who runs a replay lets it do outside of the recorded world."""

# Annotations are values here: msgspec reads them, and would compile each as a text, once for every class that has it.

from msgspec import Struct

from replaykit.model.isolation import IsolationLevel, weaker

ANYTHING, MODELS = "*", "models"
"""Names in `Consent.live` that stand for many: whatever is called, and every model."""


class Consent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Live actions a replay may take. Only command-line flags and arguments of the Python API set this."""

    live: tuple[str, ...] = ()
    """Names of tools, models and requests that may be called for real; `*` is any."""
    connect: tuple[str, ...] = ()
    """Addresses that may be reached: `HOST:PORT`, or the path of a unix socket."""
    write: tuple[str, ...] = ()
    """Absolute directories in which files may really be written."""
    everything: bool = False
    """True where the agent is run live on purpose, in a world that no file describes."""
    isolation: IsolationLevel = IsolationLevel.FULL
    """The highest level of isolation that is used, where the machine offers it."""
    keep_writes: str = ""
    """An absolute directory that the files written in a sandbox are copied to; nothing where they are discarded."""

    def covers(self, name: str) -> bool:
        """True when the person has named this tool, model or request, or anything at all."""
        return self.everything or name in self.live or ANYTHING in self.live

    @property
    def highest_level(self) -> IsolationLevel:
        """The level of isolation to ask for. What is called for real has to reach what it is for."""
        if self.everything:
            return IsolationLevel.NONE
        if self.live:
            return weaker(self.isolation, IsolationLevel.PROCESS)
        return self.isolation

    def __or__(self, other: "Consent") -> "Consent":
        """Return what either of the two allows."""
        return Consent(
            live=_either(self.live, other.live),
            connect=_either(self.connect, other.connect),
            write=_either(self.write, other.write),
            everything=self.everything or other.everything,
            isolation=weaker(self.isolation, other.isolation),
            keep_writes=other.keep_writes or self.keep_writes,
        )


def _either(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*first, *second)))


NO_CONSENT = Consent()
EVERYTHING = Consent(everything=True)
