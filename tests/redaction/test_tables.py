"""Tables: the cells of a telling column, wherever the table stands."""

from __future__ import annotations

import json
import time

import pytest

from replaykit.redaction import Redactor, find

REDACTOR = Redactor(b"a key for tests, thirty-two long")
PASSWORD = "hunter2secretX"
OTHER = "swordfish9Y"
TABLES = {
    "the last column": f"id,password\n12,{PASSWORD}\n13,{OTHER}\n",
    "the first column": f"password,id\n{PASSWORD},12\n{OTHER},13\n",
    "the line ends of Windows": f"id,password\r\n12,{PASSWORD}\r\n13,{OTHER}\r\n",
    "tabs": f"id\tpassword\n12\t{PASSWORD}\n13\t{OTHER}\n",
    "tabs, and an empty cell": f"id\tnote\tpassword\n12\t\t{PASSWORD}\n13\t\t{OTHER}\n",
    "bars": f"id|password\n12|{PASSWORD}\n13|{OTHER}\n",
    "quotes": f'"id","password"\n"12","{PASSWORD}"\n"13","{OTHER}"\n',
    "an empty cell in quotes": f'"note","password"\n"","{PASSWORD}"\n"so ""x"" it","{OTHER}"\n',
    "a line before": f"The users:\nid,password\n12,{PASSWORD}\n13,{OTHER}\n",
    "no line end": f"id,password\n12,{OTHER}\n13,{PASSWORD}",
}
PLACES = {
    "alone": "{0}",
    "a string": "{1}",
    "a member": '{{"body": {1}, "n": 1}}',
    "JSON in JSON": '{{"a": {2}}}',
    "two levels deeper": '{{"a": {3}}}',
    "JSON in prose": 'The server said {{"body": {1}}} and closed.',
    "the second of two": '{{"first": "id,password\\n1,abcDEF123", "second": {1}}}',
    "a stream of events": 'data: {{"body": {1}}}\n\ndata: {{"done": true}}\n\n',
}


def in_place(place: str, table: str) -> str:
    once = json.dumps(table)
    twice = json.dumps(json.dumps({"b": table}))
    thrice = json.dumps(json.dumps({"c": json.dumps({"d": table})}))
    return PLACES[place].format(table, once, twice, thrice)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("table", TABLES)
def test_no_cell_of_a_telling_column_stays_readable(table: str, place: str) -> None:
    after = REDACTOR.text(in_place(place, TABLES[table]))

    assert PASSWORD not in after
    assert OTHER not in after
    assert REDACTOR.is_clean(after)


@pytest.mark.parametrize("place", ["a member", "JSON in JSON", "two levels deeper"])
@pytest.mark.parametrize("table", TABLES)
def test_json_stays_json_and_loses_its_secrets_alone(table: str, place: str) -> None:
    text = TABLES[table]

    value = json.loads(REDACTOR.text(in_place(place, text)))
    while isinstance(value, dict):
        value = next(iter(value.values()))
        if value.startswith("{"):
            value = json.loads(value)

    lines = text.splitlines()
    assert len(value.splitlines()) == len(lines)
    assert value.splitlines()[0] == lines[0]


@pytest.mark.parametrize(
    "text",
    [
        '{"csv": "id,amount\\n12,hunter2secretX\\n"}',
        '{"keys": ["id", "password"], "text": "so\\n12,hunter2secretX\\n"}',
        '{"fields": "id,password", "rows": "12,hunter2secretX\\n"}',
        '{"path": "C:\\\\users,password\\\\new,hunter2secretX"}',
    ],
)
def test_what_is_in_no_telling_column_is_left_alone(text: str) -> None:
    assert find(text) == []


def test_many_heads_in_one_text_take_time_in_proportion() -> None:
    def seconds(lines: int) -> float:
        text = json.dumps({"body": "id, password\nand so on\n" * lines})
        began = time.process_time()
        find(text)
        return time.process_time() - began

    seconds(10)
    assert seconds(8_000) < 40 * max(seconds(800), 0.01)
