"""`ci merge`: combine the results of all shards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from replaykit.errors import UsageError
from replaykit.trials.ci_records import CiHeader, read_header, result_of
from replaykit.trials.ci_result import CiResult

_SAME = (
    ("version", "were made by other versions of ReplayKit"),
    ("shards", "belong to another number of shards"),
    ("settings", "were made with another configuration, other options or another agent"),
    ("suite", "are of other cases"),
    ("assignment", "were balanced with other --timings"),
)


def merged(files: Sequence[Path]) -> CiResult:
    """Return the result that `ci` would give without shards, whatever the order of the files.

    Raises `UsageError` for files that do not belong together, and for missing or duplicate shards.
    """
    if not files:
        raise UsageError("no results to merge", hint="Name the files of the shards, or the directory that holds them.")
    headers = [(file, read_header(file)) for file in files]
    first_file, first = headers[0]
    by_number: dict[int, Path] = {}
    for file, header in headers:
        _refuse_others(first_file, first, file, header)
        if header.shard in by_number:
            other = by_number[header.shard]
            message = f"shard {header.shard} of {header.shards} appears twice: {other} and {file}"
            raise UsageError(
                message, hint="Give each job a directory of its own, and leave out results of earlier runs."
            )
        by_number[header.shard] = file
    missing = [str(number) for number in range(1, first.shards + 1) if number not in by_number]
    if missing:
        shown = ", ".join(missing[:20])
        raise UsageError(
            f"of {first.shards} shards, these are missing: {shown}", hint="Their jobs failed, or left no results."
        )
    ordered = [by_number[number] for number in sorted(by_number)]
    revisions = {header.revision for _, header in headers}
    whole = replace(
        first,
        shard=1,
        shards=1,
        started_at=min(header.started_at for _, header in headers),
        revision=revisions.pop() if len(revisions) == 1 else "",
    )
    return result_of(whole, ordered)


def _refuse_others(first_file: Path, first: CiHeader, file: Path, header: CiHeader) -> None:
    for name, text in _SAME:
        if getattr(first, name) != getattr(header, name):
            raise UsageError(f"the results in {file} and {first_file} do not belong together: they {text}")
