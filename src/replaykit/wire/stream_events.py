"""Events of a stream, as JSON: what every dialect's fold reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from replaykit.model.values import Json
from replaykit.wire.dialect import FoldedStream
from replaykit.wire.frames import Frame
from replaykit.wire.json_fields import load_object


class StreamEvents:
    """The objects of a stream, one after the other; what is none is passed over and told."""

    def __init__(self, frames: Iterable[Frame], *, done: bytes = b"") -> None:
        self.error: Json = None
        self.done = False
        """True when the frame that says "done" came."""
        self._frames = frames
        self._done = done
        self._cut = False
        self._problem: str | None = None

    def __iter__(self) -> Iterator[dict[str, Json]]:
        for frame in self._frames:
            if self._done and frame.data.strip() == self._done:
                self.done = True
                continue
            event = load_object(frame.data)
            if event is not None:
                yield event
            elif frame.whole:
                self._problem = self._problem or f"an event that is no JSON object: {frame.data[:60]!r}"
            else:
                self._cut = True

    def folded(self, body: dict[str, Json], *, ended: bool) -> FoldedStream:
        """Return the folded stream: an error ends it too, an incomplete frame never does."""
        over = (ended or self.error is not None) and not self._cut
        return FoldedStream(body=body, ended=over, error=self.error, problem=self._problem)
