"""Where values stand: prose, logs, code, markup, requests, and text inside text.

A place says nothing about its value by itself, so that secrets and harmless values stand in the same places. A
`named` one puts the value's name beside it.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import quote
from xml.sax.saxutils import escape

from .forms import LOWER_HEX, pick, word
from .marked import Marked, plain

Encode = Callable[[str], str]


@dataclass(frozen=True)
class Place:
    """A text around a value: `%v` is the value, `%n` its name, `%w` a word, `%x` hexadecimal digits."""

    id: str
    text: str
    encode: Encode = str
    multiline: bool = False
    """Takes values of several lines: its encoding makes one of them, or they do no harm."""
    around: Callable[[Marked], Marked] | None = None
    identifier: bool = False
    """Names are identifiers here: no dashes and dots."""

    @property
    def named(self) -> bool:
        return "%n" in self.text

    def put(self, rng: random.Random, name: str, value: Marked) -> Marked:
        if self.identifier:
            name = name.replace("-", "_").replace(".", "_")
        before, after = (self._fill(rng, name, part) for part in self.text.split("%v"))
        marked = before + value.map(self.encode) + after
        return self.around(marked) if self.around else marked

    def _fill(self, rng: random.Random, name: str, text: str) -> str:
        while "%w" in text:
            text = text.replace("%w", word(rng), 1)
        while "%x" in text:
            text = text.replace("%x", pick(rng, LOWER_HEX, 16), 1)
        return text.replace("%n", self.encode(name))


def _json(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]


def _json_twice(text: str) -> str:
    return _json(_json(text))


def _xml(text: str) -> str:
    return escape(text, {'"': "&quot;"})


def _url(text: str) -> str:
    return quote(text, safe="")


def _single(text: str) -> str:
    return text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")


def _sql(text: str) -> str:
    return text.replace("'", "''")


def _csv(text: str) -> str:
    return text.replace('"', '""')


def _base64(marked: Marked) -> Marked:
    return plain('{"kind": "blob", "body": "') + marked.base64() + '"}'


_TIME = "2026-03-04T10:22:31.118Z"

PLACES = [
    Place("prose-en", "Here it is: %v. Tell me when the %w is done, it was not there yesterday."),
    Place("prose-en-quoted", "We found “%v” in the old folder, next to the notes on %w and %w."),
    Place("prose-en-parentheses", "The %w of last week (%v) has to go out again before noon."),
    Place("prose-en-named", "For the %w the %n is %v and nothing else has changed."),
    Place("prose-de", "Bitte trag %v dort ein, danach läuft der Auftrag wieder wie früher."),
    Place("prose-de-named", "Im Formular steht %n: %v, der Rest bleibt leer."),
    Place("prose-fr", "Voici ce qu’il nous faut : %v — c’était noté sur la première page."),
    Place("prose-es", "Por favor usa %v; el resto del pedido sigue igual que ayer."),
    Place("prose-ru", "Вот оно: %v, дальше всё как обычно, без изменений."),
    Place("prose-ja", "こちらです:%vを入力してから、もう一度お試しください。"),
    Place("prose-zh", "请使用%v,然后重新运行任务。"),
    Place("log-free", f"{_TIME} INFO  [worker-3] %w.%w: handling %v took 118 ms"),
    Place("log-pairs", f"{_TIME} level=warn svc=%w attempt=2 %n=%v took=118ms"),
    Place("log-colon", "10:22:31 ERROR %w.client [%x] rejected %n: %v (after 3 attempts)"),
    Place("log-json", f'{{"ts":"{_TIME}","level":"info","msg":"sent","%n":"%v","took_ms":118}}', _json, True),
    Place("json-flat", '{"id": 4711, "%n": "%v", "ok": true}', _json, True),
    Place(
        "json-nested", '{"tool": "%w", "arguments": {"options": {"%n": "%v", "retries": 3}}, "step": 4}', _json, True
    ),
    Place("json-list", '{"rows": [["%w", 12, "%v"], ["%w", 13, null]], "next": null}', _json, True),
    Place("json-pretty", '{\n  "name": "%w",\n  "%n": "%v",\n  "enabled": true\n}\n', _json, True),
    Place(
        "json-in-json",
        '{"type": "function", "function": {"name": "%w", "arguments": "{\\"%n\\": \\"%v\\", \\"limit\\": 5}"}}',
        _json_twice,
        True,
    ),
    Place("json-chat", '{"role": "user", "content": "Please look at %v and tell me what it is for."}', _json, True),
    Place(
        "sse-delta",
        'data: {"id":"%w","choices":[{"index":0,"delta":{"content":"It is %v, I think."}}]}\n\ndata: [DONE]\n\n',
        _json,
        True,
    ),
    Place("yaml-bare", "service:\n  name: %w\n  %n: %v\n  replicas: 2\n"),
    Place("yaml-quoted", 'service:\n  name: %w\n  settings:\n    %n: "%v"\n', _json, True),
    Place("yaml-list", "inputs:\n  - %w\n  - '%v'\n  - %w\n", _sql),
    Place("yaml-env", "env:\n  - name: MODE\n    value: fast\n  - name: %n\n    value: %v\n", identifier=True),
    Place("dotenv", "MODE=fast\n%n=%v\nWORKERS=4\n", identifier=True),
    Place("dotenv-quoted", 'export MODE=fast\nexport %n="%v"\n', _json, True, identifier=True),
    Place("ini", "[%w]\nretries = 3\n%n = %v\n"),
    Place("toml", '[%w]\nretries = 3\n%n = "%v"\n', _json, True),
    Place("properties", "app.mode=fast\napp.%n: %v\n"),
    Place("python-assign", 'import sys\n\n%n = "%v"\nprint(len(sys.argv))\n', _json, True, identifier=True),
    Place("python-keyword", "client = Client(%w=3, %n='%v', retries=2)\n", _single, True, identifier=True),
    Place("python-list", "for item in ['%w', '%v', '%w']:\n    handle(item)\n", _single, True),
    Place("python-dict", '    settings = {"mode": "fast", "%n": "%v"}\n', _json, True),
    Place("js-object", "const options = { mode: 'fast', '%n': '%v', depth: 2 };\n", _single, True),
    Place("js-template", "console.log(`seen ${count} times: %v`);\n", multiline=True),
    Place("java", '    private static final String %n = "%v";\n', _json, True, identifier=True),
    Place("go", 'var %n = "%v" // set by the operator\n', _json, True, identifier=True),
    Place("shell-export", "set -eu\nexport %n='%v'\n./%w --fast\n", _single, True, identifier=True),
    Place("shell-argument", '$ ./%w --verbose "%v" > out.txt\n', multiline=True),
    Place("shell-option", "$ %w run --%n '%v' --retries 3\n", _single, True),
    Place("curl-header", "curl -s -H '%n: %v' https://api.%w.io/v1/%w", _single, True),
    Place("curl-data", 'curl -s https://api.%w.io/v1/%w -d \'{"%n": "%v"}\'', _json, True),
    Place("http-header", "POST /v1/%w HTTP/1.1\r\nHost: %w.io\r\n%n: %v\r\nAccept: application/json\r\n\r\n"),
    Place(
        "http-form",
        "POST /%w HTTP/1.1\r\nHost: %w.io\r\nContent-Type: application/x-www-form-urlencoded\r\n\r\nmode=a&%n=%v&n=3",
        _url,
        True,
    ),
    Place("http-json", 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"%n":"%v"}', _json, True),
    Place("url-query", "GET https://api.%w.io/v1/%w?page=2&%n=%v&sort=asc 200", _url, True),
    Place("url-query-last", "see https://%w.io/%w?%n=%v", _url, True),
    Place("url-free", "redirect to https://%w.io/go?to=%v done", _url, True),
    Place("sql-insert", "INSERT INTO %w (id, mode, note) VALUES (12, 'fast', '%v');", _sql, True),
    Place("sql-where", "UPDATE %w SET %n = '%v' WHERE id = 12;", _sql, True, identifier=True),
    Place("csv", 'id,mode,note\n11,fast,"%w"\n12,slow,"%v"\n', _csv, True),
    Place("csv-bare", "12;slow;%v;%w;yes\n"),
    Place("markdown-table", "| run | seen |\n|---|---|\n| %w | %v |\n"),
    Place("markdown-list", "- **mode**: fast\n- **%n**: `%v`\n"),
    Place("markdown-code", "Then run:\n\n```sh\n%w --%n=%v\n```\n"),
    Place(
        "traceback",
        'Traceback (most recent call last):\n  File "/app/%w.py", line 41, in handle\n    check(item)\n'
        "ValueError: cannot use '%v' here\n",
        _single,
        True,
    ),
    Place(
        "traceback-locals",
        "  File \"/app/%w.py\", line 41, in handle\n    locals: {'mode': 'fast', '%n': '%v'}\nTimeoutError\n",
        _single,
        True,
    ),
    Place("chat", "user: can you help?\nassistant: what do you have?\nuser: only this %v\nassistant: thanks\n"),
    Place("chat-named", "[10:22] %w: and the %n?\n[10:23] %w: %n = %v\n[10:23] %w: got it\n"),
    Place(
        "base64-text", "Here it is: %v. Nothing else has changed since the last time.", multiline=True, around=_base64
    ),
    Place("base64-json", '{"mode": "fast", "%n": "%v"}', _json, True, around=_base64),
    Place(
        "xml-element", '<?xml version="1.0"?>\n<job><mode>fast</mode><%n>%v</%n></job>\n', _xml, True, identifier=True
    ),
    Place("xml-attribute", '<add mode="fast" %n="%v" />\n', _xml, identifier=True),
    Place("xml-text", "<p>It was <b>%v</b>, as far as we know.</p>\n", _xml, True),
    Place("diff", "@@ -3,2 +3,3 @@\n mode=fast\n+%n=%v\n workers=4\n", identifier=True),
    Place("terraform", 'resource "%w" "main" {\n  mode = "fast"\n  %n = "%v"\n}\n', _json, True, identifier=True),
]
