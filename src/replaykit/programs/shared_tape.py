"""A tape that the processes of a program share.

Chance decides which worker of a pool takes the next job, and which of two processes starts first. So a process is first
served its own recorded calls, and then those that the others have not made. Claims are files in a directory that all
processes see.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from replaykit.handlers.replay.tape import Matcher, Tape
from replaykit.model.events import Call
from replaykit.model.matching import MatchMode, MatchRules

SHARED_MODES = (MatchMode.CAUSAL, MatchMode.ARGS)
"""Modes that find calls by their arguments; modes that rely on order work within one process only."""


def shared_tape(own: Tape, others: Iterable[Call]) -> Tape:
    """Return a tape with the calls of one process, followed by those of the others."""
    tape = Tape((), name=own.name, started_at=own.started_at)
    tape.calls = [*own.calls, *Tape(others).calls]
    return tape


class SharedMatcher(Matcher):
    """A matcher that lets only one process take each recorded call."""

    def __init__(self, tape: Tape, rules: MatchRules, claims: Path) -> None:
        """`claims` is a directory with a file for each recorded call that a process has taken."""
        super().__init__(tape, rules.mode, rules.ignore, key_id=rules.redaction_key_id, model=rules.model)
        self._share(claims)

    @classmethod
    def shared(cls, matcher: Matcher, claims: Path) -> SharedMatcher:
        """Return a shared matcher that continues one of a single process; calls taken so far are claimed."""
        shared = cls.__new__(cls)
        shared.__dict__.update(matcher.__dict__)
        shared._share(claims)
        for index in range(len(shared.calls)):
            if shared.used[index]:
                shared._claim(index)
        return shared

    def _share(self, claims: Path) -> None:
        self._is_direct = False
        self._claims = claims
        claims.mkdir(exist_ok=True)

    def unused(self) -> list[int]:
        """Return the recorded calls that no process made."""
        if self._claims.is_dir():
            claimed = set(map(int, os.listdir(self._claims)))
            for index, call in enumerate(self.calls):
                if call.seq in claimed:
                    self.used[index] = 1
        return super().unused()

    def _claim(self, index: int) -> bool:
        """True if no other process has taken the call."""
        try:
            os.close(os.open(f"{self._claims}/{self.calls[index].seq}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        except FileExistsError:
            return False
        return True
