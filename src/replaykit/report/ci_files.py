"""The reports of `ci` as files: which ones, and writing them. The viewer writes the page."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from replaykit.errors import ReplayKitError, StoreError, UsageError
from replaykit.model.values import sayable
from replaykit.redaction.files import clean_struct, file_redactor
from replaykit.report.ci import ci_json
from replaykit.report.ci_junit import ci_junit
from replaykit.report.ci_markdown import ci_markdown
from replaykit.trials.ci_records import RecordedItems
from replaykit.trials.ci_result import CiResult


class ReportForm(StrEnum):
    """The forms of a report; the values are the endings of their files."""

    JSON = ".json"
    JUNIT = ".xml"
    MARKDOWN = ".md"
    HTML = ".html"


PageWriter = Callable[[Path, CiResult], object]
"""Writes a result to a file as a page."""
_TEXTS: Mapping[ReportForm, Callable[[CiResult], str]] = {
    ReportForm.JSON: lambda result: f"{ci_json(result)}\n",
    ReportForm.JUNIT: ci_junit,
    ReportForm.MARKDOWN: ci_markdown,
}
_IN_DIRECTORY = ("ci.json", "junit.xml", "ci.md", "ci.html")


def planned(
    output: Path | None, *, junit: Path | None = None, markdown: Path | None = None, html: Path | None = None
) -> dict[Path, ReportForm]:
    """The files to write, and the form of each; `output` is a file where its suffix says so, else a directory."""
    files: dict[Path, ReportForm] = {}
    if output is not None:
        suffix = output.suffix.lower()
        if suffix in list(ReportForm) and not output.is_dir():
            files[output] = ReportForm(suffix)
        elif output.is_file():
            known = ", ".join(ReportForm)
            raise UsageError(f"-o {output}: the name does not say which report to write", hint=f"End it with {known}.")
        else:
            files = {output / name: ReportForm(Path(name).suffix) for name in _IN_DIRECTORY}
            refuse_links(files)
    named = ((junit, ReportForm.JUNIT), (markdown, ReportForm.MARKDOWN), (html, ReportForm.HTML))
    for file, form in named:
        if file is not None:
            files[file] = form
    return files


def refuse_links(files: Iterable[Path]) -> None:
    """Refuse links where nobody named the file: a pull request can bring them, and they lead anywhere."""
    for file in files:
        if file.is_symlink():
            raise UsageError(
                f"{file} is a symbolic link: a report would be written to where it leads",
                hint="Remove it, or name another directory with -o.",
            )


def write_reports(result: CiResult, files: Mapping[Path, ReportForm], write_page: PageWriter) -> Iterator[Path]:
    """Write each report, redacted; gives its file when it is there. The first that cannot be is an error at the end."""
    failed: ReplayKitError | None = None
    if not isinstance(result.items, RecordedItems):  # those were redacted when they were written
        result = clean_struct(result, file_redactor())
    for file, form in files.items():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            if form is ReportForm.HTML:
                _write_page(file, result, write_page)
            else:
                _write(file, sayable(_TEXTS[form](result)))
        except OSError as error:
            failed = failed or StoreError(f"{file} cannot be written: {error.strerror}")
        except ReplayKitError as error:
            failed = failed or error
        else:
            yield file
    if failed is not None:
        raise failed


def _write_page(file: Path, result: CiResult, write_page: PageWriter) -> None:
    if not _is_device(file):
        write_page(file.resolve(), result)
        return
    with TemporaryDirectory() as directory:
        page = Path(directory) / "ci.html"
        write_page(page, result)
        file.write_bytes(page.read_bytes())


def _is_device(file: Path) -> bool:
    """Return whether a file cannot be replaced, such as /dev/stdout."""
    return file.is_relative_to("/dev") or (file.exists() and not file.is_file())


def _write(file: Path, text: str) -> None:
    """Write a file as a whole or not at all: whoever reads it meanwhile, or after a full disk, reads no half."""
    if _is_device(file):
        file.write_text(text, encoding="utf-8", newline="\n")
        return
    target = file.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
