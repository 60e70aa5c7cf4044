"""Shared files: the page and its documents as one HTML file that opens from disk and makes no request.

A document stands in `<script type="application/json" data-path="…">`, under the path that the page asks the server for:

    home                         run/RUN                       compare/RUN/RUN, replay/NAME, case/NAME
    run/RUN/rows                 one block for each batch, in order
    run/RUN/event                a list of event pages, for events `data-from` to `data-to`
    run/RUN/state                a state page, for events `data-from` to `data-to`
    run/RUN/family, run/RUN/ungrounded

Names in paths are spelled as `encodeURIComponent` does. A search reads the event blocks.
"""

from __future__ import annotations

import base64
import hashlib
import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice, pairwise
from pathlib import Path
from urllib.parse import unquote

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from replaykit.errors import ReplayKitError, UsageError
from replaykit.private_files import make_file
from replaykit.redaction.files import clean_bytes, file_redactor, refuse_leaks, writing
from replaykit.redaction.second_check import SecondCheck
from replaykit.viewer.documents import Documents
from replaykit.viewer.modules import STATIC, joined_script
from replaykit.viewer.page_types import Home, StatePage
from replaykit.viewer.routes import document_path
from replaykit.viewer.spool import RunSpool

MAX_EVENTS = 100_000
_BLOCK_EVENTS = 64
_MAX_STATE_BYTES = 64 * 1024 * 1024
_LEFT_OUT = "This state is not in the file: the states of the run are too large. Look at it in the store."
_NAMES = "the names of runs, replays and cases"
_LINK = '<link rel="stylesheet" href="static/style.css">'
_SCRIPT = '<script type="module" src="static/main.js"></script>'
_encode = msgspec.json.Encoder().encode

OnProgress = Callable[[int, int], None]


class Block(Struct, frozen=True):
    """One document in a shared file."""

    path: str
    text: bytes
    first: int | None = None
    """The first event that it is about."""
    last: int | None = None
    is_shortened: bool = False
    """True if other blocks hold all of its texts in full."""

    @property
    def title(self) -> str:
        """The document in words, for a refusal."""
        if self.first is None:
            return self.path
        return f"{self.path}, events {self.first} to {self.last}"


class SharedPages(Struct, frozen=True, kw_only=True):
    """What a file shows: the route that it opens with, the runs, and documents beside them by path."""

    opens: str
    runs: tuple[str, ...]
    documents: dict[str, Callable[[], object]] = {}
    is_redacted: bool = False
    """True if everything comes from redacted files. It is redacted again, because a shortened text may end inside of a
    placeholder, and look like a secret."""


def write_shared_file(
    file: Path, documents: Documents, pages: SharedPages, on_progress: OnProgress = lambda _done, _total: None
) -> int:
    """Write a shared file and return its size. If a document may hold a secret, nothing is written."""
    redactor = file_redactor()
    check = None if redactor is None else SecondCheck(redactor.rules)
    head, foot = _template()
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}")
    with writing(file):
        try:
            make_file(beside)
            with beside.open("wb") as stream:
                stream.write(head)
                for block in _blocks(documents, pages, on_progress):
                    if pages.is_redacted or block.is_shortened:
                        block = replace(block, text=clean_bytes(block.text, redactor))
                    refuse_leaks({_NAMES: unquote(block.path).encode()}, redactor, check)  # before the title shows it
                    refuse_leaks({block.title: block.text}, redactor, check)
                    stream.write(_element(block))
                stream.write(foot)
            size = beside.stat().st_size
            os.replace(beside, file)
        finally:
            with suppress(FileNotFoundError):
                beside.unlink()
    return size


def _blocks(documents: Documents, pages: SharedPages, on_progress: OnProgress) -> Iterator[Block]:
    spools = [documents.spool(address) for address in pages.runs]
    home = Home(project=documents.project, opens=pages.opens)
    yield Block("home", _encode(home))
    for path, document in pages.documents.items():
        yield Block(path, _encode(document()))
    total = sum(_event_count(spool) for spool in spools)
    done = 0
    for address, spool in zip(pages.runs, spools, strict=True):
        for block in _run_blocks(documents, address, spool):
            yield block
            if block.path.endswith("/event") and block.first is not None:
                done = min(total, done + _BLOCK_EVENTS)
                on_progress(done, total)


def _event_count(spool: RunSpool) -> int:
    totals = spool.finished_page().totals
    count = 0 if totals is None else totals.events
    if count > MAX_EVENTS:
        raise UsageError(f"run {spool.address} has {count:,} events, and a shared file holds up to {MAX_EVENTS:,}")
    return count


def _run_blocks(documents: Documents, address: str, spool: RunSpool) -> Iterator[Block]:
    path = document_path("run", address)
    yield Block(path, _encode(spool.finished_page()))
    for batch in spool.row_batches():
        yield Block(f"{path}/rows", batch, is_shortened=True)
    for name, document in (("family", documents.family), ("ungrounded", documents.ungrounded)):
        with suppress(ReplayKitError):  # the run of a replay or a case has no family
            yield Block(f"{path}/{name}", _encode(document(address)))
    seqs, pages = spool.seqs(), spool.events_json()
    for start in range(0, len(seqs), _BLOCK_EVENTS):
        part = seqs[start : start + _BLOCK_EVENTS]
        texts = [page.rstrip() for page in islice(pages, len(part))]
        yield Block(f"{path}/event", b"[" + b",".join(texts) + b"]", part[0], part[-1])
    yield from _state_blocks(f"{path}/state", spool, seqs[-1] if seqs else 0)


def _state_blocks(path: str, spool: RunSpool, last: int) -> Iterator[Block]:
    size = 0
    checkpoints = [*spool.state_seqs(), last + 1]
    for seq, following in pairwise(checkpoints):
        text = _encode(spool.state(seq) if size < _MAX_STATE_BYTES else StatePage(seq=seq, missing=_LEFT_OUT))
        size += len(text)
        yield Block(path, text, seq, following - 1)


def _element(block: Block) -> bytes:
    span = ""
    if block.first is not None:
        span = f' data-from="{block.first}" data-to="{block.last}"'
    # In JSON, `<` occurs in strings only.
    text = block.text.replace(b"<", b"\\u003c")
    return f'<script type="application/json" data-path="{block.path}"{span}>'.encode() + text + b"</script>\n"


def _template() -> tuple[bytes, bytes]:
    """Return what stands before and after the documents."""
    style = (STATIC / "style.css").read_text(encoding="utf-8")
    script = joined_script()
    policy = {
        "default-src": "'none'",
        "script-src": f"'sha256-{_digest(script)}'",
        "style-src": f"'sha256-{_digest(style)}'",
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
        "trusted-types": "'none'",
    }
    content = "; ".join(f"{name} {value}" for name, value in policy.items())
    page = (STATIC / "index.html").read_text(encoding="utf-8")
    for part in ("<head>", _LINK, _SCRIPT, "</body>"):
        if page.count(part) != 1:
            raise ValueError(f"index.html holds {part} {page.count(part)} times")
    page = page.replace("<head>", f'<head>\n<meta http-equiv="Content-Security-Policy" content="{content}">')
    page = page.replace(_LINK, f"<style>{style}</style>").replace(_SCRIPT, "")
    head, _, foot = page.partition("</body>")
    return head.encode(), f"<script>{script}</script>\n</body>{foot}".encode()


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
