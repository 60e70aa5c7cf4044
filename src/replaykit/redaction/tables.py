"""Tables: values in columns of telling names, in CSV and in SQL."""

from __future__ import annotations

from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy import lazy
from replaykit.redaction.placeholders import is_placeholder
from replaykit.redaction.plausible import is_plausible
from replaykit.redaction.rules import Rules
from replaykit.redaction.telling import Telling, Trust
from replaykit.redaction.view import View

_HEAD = lazy(
    rb"[ \t]*((?:[\"']?[A-Za-z][\w .-]{0,39}+[\"']?[,;\t|][ \t]*){1,40}[\"']?[A-Za-z][\w .-]{0,39}+[\"']?)"
    rb"[ \t\r]*(?:\n|\v )"
)
_CELL = lazy(rb'[ \t]*(?:"((?:[^"\r\n]|""){0,4096}+)"|([^,;\t|\r\n\v]{0,4096}+))[ \t]*([,;\t|]|\r?\n|\v |\Z)')
_VALUES = lazy(rb"\(([\w\s\"`.,\[\]]{3,2000}+)\)\s*VALUES\s*", 2)
_ROW = lazy(rb"[\s,]*\(")
_ITEM = lazy(rb"\s*(?:N?'((?:[^'\\]|''|\\.){0,4096}+)'|\"((?:[^\"\\]|\\.){0,4096}+)\"|([^,()'\"]{0,200}+))\s*([,)])")
_OPENING = (b'"', b"=", b"{", b"\v ")
_MAX_ROWS = 10_000
_LONGEST = 1_000
Columns = dict[int, Telling]


def sql_hits(view: View, rules: Rules) -> Iterator[Hit]:
    """The values of an INSERT below telling columns."""
    for found in _VALUES.finditer(view.flat):
        columns = _columns(found[1].split(b","), rules)
        if columns:
            yield from _rows_of_sql(view, found.end(), columns)


def csv_hits(view: View, rules: Rules, at: int) -> Iterator[Hit]:
    """The values below telling columns, when the line with the telling name at `at` is the head of a table."""
    first = max(0, at - _LONGEST)
    start = view.flat.rfind(b"\n", first, at) + 1
    head = _HEAD.match(view.flat, start, start + _LONGEST)
    if head is None:  # the table may be the value of a member or of a field
        start = max(view.flat.rfind(sign, first, at) for sign in _OPENING) + 1
        head = _HEAD.match(view.flat, start, start + _LONGEST)
    if head is None:
        return
    sign = next(char for char in b",;\t|" if bytes([char]) in head[1])
    names = head[1].strip(b"| ").split(bytes([sign]))
    yield from _rows_of_csv(view, head.end(), _columns(names, rules), len(names), sign)


def _columns(names: list[bytes], rules: Rules) -> Columns:
    told = ((place, rules.tells(name.strip(b" \"`'[]\n\r\t").decode())) for place, name in enumerate(names))
    return {place: telling for place, telling in told if telling is not None}


def _rows_of_csv(view: View, at: int, columns: Columns, width: int, sign: int) -> Iterator[Hit]:
    for _ in range(_MAX_ROWS):
        cells = []
        while cell := _CELL.match(view.flat, at):
            at = cell.end()
            cells.append(cell.span(1) if cell[1] is not None else cell.span(2))
            if cell[3] != bytes([sign]):
                break
        if len(cells) != width:
            return
        for place, told in columns.items():
            hit = _hit(view, *cells[place], told)
            if hit:
                yield hit


def _rows_of_sql(view: View, at: int, columns: Columns) -> Iterator[Hit]:
    for _ in range(_MAX_ROWS):
        row = _ROW.match(view.flat, at)
        if row is None:
            return
        at, place = row.end(), 0
        while item := _ITEM.match(view.flat, at):
            at = item.end()
            if place in columns:
                group = next(number for number in (1, 2, 3) if item[number] is not None)
                hit = _hit(view, *item.span(group), columns[place])
                if hit:
                    yield hit
            place += 1
            if item[4] == b")":
                break
        else:
            return


def _hit(view: View, start: int, end: int, told: Telling) -> Hit | None:
    while end > start and view.flat[end - 1 : end].isspace():
        end -= 1
    value = view.text[start:end]
    if start == end or (told.trust is Trust.ANY and " " in value) or not is_plausible(value, told, quoted=True):
        return None
    return None if is_placeholder(value, told.kind) else Hit(told.kind, start, end, 4, is_own=told.is_own)
