"""The reports of `ci` as files: which ones, and writing them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from replaykit.errors import StoreError, UsageError
from replaykit.model.values import sayable
from replaykit.redaction.files import clean_struct, file_redactor
from replaykit.report.ci import ci_json
from replaykit.report.ci_html import ci_html
from replaykit.report.ci_junit import ci_junit
from replaykit.report.ci_markdown import ci_markdown
from replaykit.trials.ci_records import RecordedItems
from replaykit.trials.ci_result import CiResult

Form = Callable[[CiResult], str]
_FORMS: Mapping[str, Form] = {
    ".json": lambda result: f"{ci_json(result)}\n",
    ".xml": ci_junit,
    ".md": ci_markdown,
    ".html": ci_html,
}
_IN_DIRECTORY = ("ci.json", "junit.xml", "ci.md", "ci.html")


def planned(
    output: Path | None, *, junit: Path | None = None, markdown: Path | None = None, html: Path | None = None
) -> dict[Path, Form]:
    """The files to write, and the form of each; `output` is a file where its suffix says so, else a directory."""
    files: dict[Path, Form] = {}
    if output is not None:
        form = _FORMS.get(output.suffix.lower())
        if form is not None and not output.is_dir():
            files[output] = form
        elif output.is_file():
            known = ", ".join(_FORMS)
            raise UsageError(f"-o {output}: the name does not say which report to write", hint=f"End it with {known}.")
        else:
            files = {output / name: _FORMS[Path(name).suffix] for name in _IN_DIRECTORY}
            refuse_links(files)
    for file, form in ((junit, ci_junit), (markdown, ci_markdown), (html, ci_html)):
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


def write_reports(result: CiResult, files: Mapping[Path, Form]) -> Iterator[Path]:
    """Write each report, redacted; gives its file when it is there. The first that cannot be is an error at the end."""
    failed: StoreError | None = None
    if not isinstance(result.items, RecordedItems):  # those were redacted when they were written
        result = clean_struct(result, file_redactor())
    for file, form in files.items():
        text = form(result)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            _write(file, sayable(text))
        except OSError as error:
            failed = failed or StoreError(f"{file} cannot be written: {error.strerror}")
        else:
            yield file
    if failed is not None:
        raise failed


def _write(file: Path, text: str) -> None:
    """Write a file as a whole or not at all: whoever reads it meanwhile, or after a full disk, reads no half."""
    if file.is_relative_to("/dev") or (file.exists() and not file.is_file()):  # such as /dev/stdout
        file.write_text(text, encoding="utf-8", newline="\n")
        return
    target = file.resolve()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_text(text, encoding="utf-8", newline="\n")
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
