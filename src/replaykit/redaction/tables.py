"""Find values in columns with telling names, in CSV and SQL."""

from __future__ import annotations

import re
from collections.abc import Iterator

from replaykit.redaction.finding import Hit
from replaykit.redaction.lazy_patterns import lazy
from replaykit.redaction.name_hints import NameHint, Trust
from replaykit.redaction.placeholders import is_placeholder
from replaykit.redaction.plausible_values import is_plausible
from replaykit.redaction.rules import Rules
from replaykit.redaction.text_view import View

_HEAD = lazy(
    rb"[ \t]*((?:[\"']?[A-Za-z][\w .-]{0,39}+[\"']?[,;\t|][ \t]*){1,40}[\"']?[A-Za-z][\w .-]{0,39}+[\"']?)"
    rb"[ \t\r]*\n"
)
_ESCAPED_LINE_END = lazy(rb"(?<!\\)(\\{1,8}+)[nr]")
_CELL = lazy(rb'[ \t]*(?:"((?:[^"\r\n]|""){0,4096}+)"|([^,;\t|\r\n]{0,4096}+))[ \t]*([,;\t|]|\r?\n|\Z)')
_CELL_BEFORE_TAB = lazy(rb' *(?:"((?:[^"\r\n]|""){0,4096}+)"|([^\t\r\n]{0,4096}+)) *(\t|\r?\n|\Z)')
_VALUES = lazy(rb"\(([\w\s\"`.,\[\]]{3,2000}+)\)\s*VALUES\s*", 2)
_ROW = lazy(rb"[\s,]*\(")
_ITEM = lazy(rb"\s*(?:N?'((?:[^'\\]|''|\\.){0,4096}+)'|\"((?:[^\"\\]|\\.){0,4096}+)\"|([^,()'\"]{0,200}+))\s*([,)])")
_OPENING = (b'"', b"=", b"{")
_MAX_ROWS = 10_000
_LONGEST = 1_000
_SIGNS = (b",", b";", b"\t", b"|")
Columns = dict[int, NameHint]


def sql_hits(view: View, rules: Rules) -> Iterator[Hit]:
    """Yield the values of an INSERT below telling columns."""
    for found in _VALUES.finditer(view.flat):
        columns = _columns(found[1].split(b","), rules)
        if columns:
            yield from _rows_of_sql(view, found.end(), columns)


def csv_hits(view: View, rules: Rules, at: int, heads: set[int]) -> Iterator[Hit]:
    """Yield the values below telling columns if the line with the telling name is the head of a table.

    `heads` holds the positions of tables read before, and gets this one.
    """
    head = _head_at(view.flat, at) or _head_in_json(view, at)
    if head is None or head.start() in heads:
        return
    heads.add(head.start())
    (sign, *_) = filter(head[1].__contains__, _SIGNS)
    names = head[1].strip(b"| ").split(sign)
    columns = _columns(names, rules)
    for start, end, place in _cells(head.string, head.end(), columns, len(names), sign):
        yield from _hits(view, start, end, columns[place])


def _head_at(flat: bytes, at: int) -> re.Match[bytes] | None:
    first = max(0, at - _LONGEST)
    start = flat.rfind(b"\n", first, at) + 1
    head = _HEAD.match(flat, start, start + _LONGEST)
    if head is None:  # the table may be the value of a member or field
        start = max([flat.rfind(sign, first, at) for sign in _OPENING]) + 1
        head = _HEAD.match(flat, start, start + _LONGEST)
    return head


def _head_in_json(view: View, at: int) -> re.Match[bytes] | None:
    """Return the head of a table with lines ending in `\\n` or `\\\\n`, as in a JSON string."""
    around = view.text[at : at + _LONGEST].encode("ascii", "replace")
    line_end = _ESCAPED_LINE_END.search(around)
    flat = line_end and view.unescaped(len(line_end[1]))
    return _head_at(flat, at) if flat else None


def _columns(names: list[bytes], rules: Rules) -> Columns:
    columns = {}
    for place, name in enumerate(names):
        hint = rules.hint_of(name.strip(b" \"`'[]\n\r\t").decode())
        if hint is not None:
            columns[place] = hint
    return columns


def _cells(flat: bytes, at: int, columns: Columns, width: int, sign: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the spans of cells in these columns row by row, with their column."""
    pattern = _CELL
    if sign == b"\t":
        pattern = _CELL_BEFORE_TAB
    for _ in range(_MAX_ROWS):
        row = []
        while cell := pattern.match(flat, at):
            at = cell.end()
            row.append(_value_span(cell))
            if cell[3] != sign:
                break
        if len(row) != width:
            return
        for place in columns:
            yield *row[place], place


def _rows_of_sql(view: View, at: int, columns: Columns) -> Iterator[Hit]:
    for _ in range(_MAX_ROWS):
        row = _ROW.match(view.flat, at)
        if row is None:
            return
        at, place = row.end(), 0
        while item := _ITEM.match(view.flat, at):
            at = item.end()
            if place in columns:
                yield from _hits(view, *_value_span(item), columns[place])
            place += 1
            if item[4] == b")":
                break
        else:
            return


def _value_span(cell: re.Match[bytes]) -> tuple[int, int]:
    """Return the span of a cell's value: the first group that matched."""
    group = 1
    while cell[group] is None:
        group += 1
    return cell.span(group)


def _hits(view: View, start: int, end: int, hint: NameHint) -> Iterator[Hit]:
    end -= len(view.flat[start:end]) - len(view.flat[start:end].rstrip())
    value = view.text[start:end]
    if not value or (hint.trust is Trust.ANY and " " in value) or not is_plausible(value, hint, quoted=True):
        return
    if not is_placeholder(value, hint.kind):
        yield Hit(hint.kind, start, end, 4, is_own=hint.is_own)
