"""The reports of `ci` as files: which ones, and writing them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from replaykit.errors import StoreError, UsageError
from replaykit.report.ci import ci_json
from replaykit.trials.ci_result import CiResult


def _junit(result: CiResult) -> str:
    from replaykit.report.ci_junit import ci_junit  # noqa: PLC0415 (each report brings what it needs)

    return ci_junit(result)


def _markdown(result: CiResult) -> str:
    from replaykit.report.ci_markdown import ci_markdown  # noqa: PLC0415

    return ci_markdown(result)


def _html(result: CiResult) -> str:
    from replaykit.report.ci_html import ci_html  # noqa: PLC0415

    return ci_html(result)


def _json(result: CiResult) -> str:
    return ci_json(result) + "\n"


Form = Callable[[CiResult], str]
_FORMS: Mapping[str, Form] = {".json": _json, ".xml": _junit, ".md": _markdown, ".html": _html}
_IN_DIRECTORY = {"ci.json": _json, "junit.xml": _junit, "ci.md": _markdown, "ci.html": _html}


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
            raise UsageError(f"-o {output}: a file whose form its name does not tell", hint=f"End it with {known}.")
        else:
            files.update({output / name: form for name, form in _IN_DIRECTORY.items()})
    named = ((junit, _junit), (markdown, _markdown), (html, _html))
    files.update({file: form for file, form in named if file is not None})
    return files


def write_reports(result: CiResult, files: Mapping[Path, Form]) -> Iterator[Path]:
    """Write each report; gives its file when it is there."""
    for file, form in files.items():
        text = form(result)
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        except OSError as error:
            raise StoreError(f"{file} cannot be written: {error.strerror}") from None
        yield file
