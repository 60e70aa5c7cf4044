"""The bundle: the files of a project as one value, named by its hash.

It contains only files and their paths: no links, owners or times. Equal files give equal bytes. The receiver trusts no
path in it.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import IO

import msgspec
import zstandard
from msgspec import Struct

from replaykit.errors import InvalidFile, UsageError

MAX_BUNDLE_BYTES = 1 << 29
"""The limit on the total size of the files, uncompressed."""
_HEADER_BYTES = 4
_FILE_MODE, _PROGRAM_MODE = 0o600, 0o700
_VERSION_CONTROL = frozenset([".git", ".hg", ".svn"])
_ENVIRONMENTS = frozenset([".venv", ".tox", ".nox", "node_modules"])
_CACHES = frozenset(["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"])
_LEFT_OUT = frozenset([".replaykit"]) | _VERSION_CONTROL | _ENVIRONMENTS | _CACHES
# Files that conventionally hold secrets, in lower case. Workers must have their own.
_SECRETS = (
    ".env",
    ".env.*",
    ".envrc",
    ".netrc",
    ".npmrc",
    ".pgpass",
    ".pypirc",
    ".git-credentials",
    "id_rsa",
    "id_ecdsa",
    "id_ed25519",
    "*.pem",
    "*.key",
    "*.p12",
    "*.pfx",
)
_ENVIRONMENT = "pyvenv.cfg"
_SHOWN_DIRECTORIES = 3


class BundledFile(Struct, frozen=True):
    """A file of a bundle."""

    path: str
    size_bytes: int
    is_program: bool = False


class Bundle(Struct, frozen=True, kw_only=True):
    """The files of a directory."""

    data: bytes
    left_out: tuple[str, ...] = ()
    """Links to directories, to anything outside of the directory, or to files that are not sent."""

    @property
    def digest(self) -> str:
        """The name of the bundle: a hash of its content."""
        return digest_of(self.data)


def digest_of(data: bytes) -> str:
    """Return the hash that names a bundle."""
    return hashlib.sha256(data).hexdigest()


def pack(directory: Path, *, store: Path | None = None, limit_bytes: int = MAX_BUNDLE_BYTES) -> Bundle:
    """Bundle the files below a directory; raise `UsageError` if they are too large to send.

    Leaves out `store`, and the files beside it whose names begin with its name.
    """
    left_out: list[str] = []
    found = _files_below(directory, directory.resolve(), left_out)
    if store is not None:
        private = os.path.relpath(store, directory).replace(os.sep, "/")
        found = (path for path in found if not path.startswith(private))
    sizes = {path: os.stat(directory / path).st_size for path in found}
    _refuse_large(directory, sizes, limit_bytes)
    files = []
    for path, size in sizes.items():
        files.append(BundledFile(path, size, os.access(directory / path, os.X_OK)))
    header = msgspec.json.encode(files)
    head = len(header).to_bytes(_HEADER_BYTES, "big") + header
    compressor = zstandard.ZstdCompressor().compressobj(size=len(head) + sum(sizes.values()))
    parts = [compressor.compress(head)]
    for path, size in sizes.items():  # one file at a time, because together they may be large
        content = (directory / path).read_bytes()
        if len(content) != size:
            raise UsageError(f"{path} was written to while it was read; run it again")
        parts.append(compressor.compress(content))
    return Bundle(data=b"".join([*parts, compressor.flush()]), left_out=tuple(left_out))


def _files_below(directory: Path, root: Path, left_out: list[str], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the files to send, in the same order on every machine."""
    with os.scandir(directory) as entries:
        # The hash of the bundle must not depend on the order in which a file system lists entries.
        ordered = sorted(entries, key=lambda entry: entry.name)
    if any(entry.name == _ENVIRONMENT for entry in ordered):
        return
    for entry in ordered:
        path = f"{prefix}{entry.name}"
        if entry.is_dir(follow_symlinks=False):
            if entry.name not in _LEFT_OUT:
                yield from _files_below(Path(entry.path), root, left_out, f"{path}/")
        elif entry.is_symlink() and not _leads_to_file_in(Path(entry.path), root):
            left_out.append(path)
        elif entry.is_file() and not _is_secret_or_compiled(entry.name):
            yield path


def _leads_to_file_in(link: Path, root: Path) -> bool:
    target = link.resolve()
    if not target.is_file() or not target.is_relative_to(root) or _is_secret_or_compiled(target.name):
        return False
    return not _LEFT_OUT.intersection(target.parts)


def _is_secret_or_compiled(name: str) -> bool:
    name = name.lower()
    return name.endswith((".pyc", ".pyo")) or any(fnmatchcase(name, pattern) for pattern in _SECRETS)


def _refuse_large(directory: Path, sizes: dict[str, int], limit_bytes: int) -> None:
    whole = sum(sizes.values())
    if whole <= limit_bytes:
        return
    by_directory: Counter[str] = Counter()
    for path, size in sizes.items():
        by_directory[path.partition("/")[0]] += size
    largest = [f"{name} ({size:,} bytes)" for name, size in by_directory.most_common(_SHOWN_DIRECTORIES)]
    raise UsageError(
        f"the files below {directory.absolute()} have {whole:,} bytes; at most {limit_bytes:,} are sent to workers",
        hint=f"Start in a directory with the agent and its cases alone, or use --shard. Largest: {', '.join(largest)}",
    )


def unpack(data: bytes, digest: str, target: Path, *, limit_bytes: int = MAX_BUNDLE_BYTES) -> None:
    """Write the files of a bundle to a new directory. An invalid bundle raises before anything is written."""
    if digest_of(data) != digest:
        raise _wrong("its hash does not match the announced one", digest)
    try:
        whole_bytes = zstandard.frame_content_size(data)
        # Allow for the list of paths and sizes on top of the files.
        if not 0 <= whole_bytes <= 2 * limit_bytes:
            raise _wrong(f"it unpacks to {whole_bytes:,} bytes; at most {2 * limit_bytes:,} are accepted", digest)
        with zstandard.ZstdDecompressor().stream_reader(data) as reader:
            _unpack_from(reader, whole_bytes, digest, target)
    except zstandard.ZstdError:
        raise _wrong("it is not compressed as bundles are", digest) from None


def _unpack_from(reader: IO[bytes], whole_bytes: int, digest: str, target: Path) -> None:
    size = int.from_bytes(reader.read(_HEADER_BYTES), "big")
    try:
        # A forged length must not make this allocate more than the bundle unpacks to.
        files = msgspec.json.decode(reader.read(min(size, whole_bytes)), type=list[BundledFile])
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise _wrong("it has no list of files", digest) from None
    sizes = [file.size_bytes for file in files]
    if min(sizes, default=0) < 0 or _HEADER_BYTES + size + sum(sizes) != whole_bytes:
        raise _wrong("its sizes do not add up", digest)
    _refuse_paths(files, digest)
    target.mkdir(mode=0o700)
    directories = {""}
    for file in files:
        directory = file.path.rpartition("/")[0]
        if directory not in directories:
            (target / directory).mkdir(mode=0o700, parents=True, exist_ok=True)
            directories.add(directory)
        _write(f"{target}/{file.path}", reader.read(file.size_bytes), file.is_program)


def _refuse_paths(files: list[BundledFile], digest: str) -> None:
    """Refuse paths that leave the directory, are duplicates, or pass through a file."""
    paths = {file.path for file in files}
    if len(paths) != len(files):
        raise _wrong("it holds a path twice", digest)
    for path in paths:
        if not is_inner_path(path):
            raise _wrong(f"the path {path!r} is not one inside of the bundle", digest)
        if any(str(parent) in paths for parent in PurePosixPath(path).parents):
            raise _wrong(f"the path {path!r} goes through a file", digest)


def is_inner_path(path: str) -> bool:
    """Return whether a path is relative and stays below its directory on every system."""
    if not path or any(character in path for character in "\\:\0"):
        return False
    return all(part not in ("", ".", "..") for part in path.split("/"))


def _write(file: str, content: bytes, is_program: bool) -> None:
    mode = _PROGRAM_MODE if is_program else _FILE_MODE
    # O_EXCL follows no link and overwrites nothing, whatever the bundle claims.
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), mode)
    with os.fdopen(handle, "wb", buffering=0) as stream:
        stream.write(content)


def _wrong(reason: str, digest: str) -> InvalidFile:
    return InvalidFile(reason, file=f"bundle {digest[:12]}")
