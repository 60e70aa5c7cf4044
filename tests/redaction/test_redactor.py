"""The redactor: texts, values, headers, URLs; every other byte stays."""

from __future__ import annotations

import base64
import datetime as dt
import json
import re

import pytest

from replaykit.redaction import DEFAULT, Redactor, Rules
from replaykit.redaction.placeholders import blurred, canonical, is_placeholder, placeholder
from replaykit.redaction.rules import with_additions

KEY = b"a key for tests, thirty-two long"
MAIL = "jane@example.com"


def stand_in(kind: str, value: str) -> str:
    return placeholder(KEY, kind, value)


def test_a_placeholder_says_the_kind_and_depends_on_the_key() -> None:
    assert is_placeholder(stand_in("email", MAIL))
    assert stand_in("email", MAIL) != placeholder(b"another key, thirty-two long too", "email", MAIL)
    assert stand_in("email", MAIL) != stand_in("secret", MAIL)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("email", "Jane@Example.com", "jane@example.com"),
        ("phone", "+49 30 1234567", "+49-30-1234567"),
        ("card", "4111 1111 1111 1111", "4111111111111111"),
        ("iban", "DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
    ],
)
def test_spellings_of_one_value_have_one_placeholder_in_that_spelling(kind: str, one: str, other: str) -> None:
    first, second = (canonical(f"({stand_in(kind, text)})".encode()) for text in (one, other))

    assert first == second
    assert re.sub(r"[0-9A-Za-z]", "0", stand_in(kind, one)) == re.sub(r"[0-9A-Za-z]", "0", one) or kind == "email"


def test_placeholders_of_other_keys_are_the_same_once_blurred() -> None:
    other = Redactor(b"another key, thirty-two long too")
    text = b'{"to": "jane@example.com", "u": "?e=jane%40example.com"}'

    mine, theirs = Redactor(KEY).raw(text), other.raw(text)

    assert mine != theirs
    assert blurred(mine) == blurred(theirs)
    assert blurred(b"nothing: here") == b"nothing: here"
    assert is_placeholder("<email:0123abcd>")
    assert not is_placeholder("<email:0123abcd> ")
    assert not is_placeholder("<your-token>")


@pytest.mark.parametrize(
    "text",
    [
        f"write to {MAIL}",
        f"write to {MAIL.upper()}",
        json.dumps({"to": MAIL}),
        json.dumps({"a": json.dumps({"b": json.dumps({"to": MAIL})})}),
        json.dumps({MAIL: 1}),
        "https://example.com/?to=jane%40example.com&x=1",
        "https://example.com/?u=https%3A%2F%2Fexample.com%2F%3Fto%3Djane%2540example.com",
        base64.b64encode(f"to: {MAIL}, and more".encode()).decode(),
        base64.urlsafe_b64encode(f'{{"to": "{MAIL}", "x": "??>>"}}'.encode()).decode().rstrip("="),
    ],
)
def test_the_same_value_has_the_same_placeholder_in_every_embedding(redactor: Redactor, text: str) -> None:
    after = redactor.text(text)

    plain = after
    for _ in range(3):
        plain = plain.replace("%25", "%").replace("%40", "@")
    if stand_in("email", MAIL) not in plain:
        plain = base64.urlsafe_b64decode(after.replace("+", "-").replace("/", "_") + "==").decode()
    assert stand_in("email", MAIL) in plain
    assert MAIL not in plain.lower()
    assert redactor.text(after) is after


def test_nothing_found_is_the_same_object(redactor: Redactor) -> None:
    text, raw, value = "nothing to see " * 300, b'{"a": [1, 2.50, "x"]}', {"a": (1, 2)}

    assert redactor.text(text) is text
    assert redactor.raw(raw) is raw
    assert redactor.value(value) is value
    assert redactor.chunks([b"a", b"b"]) == [b"a", b"b"]
    assert redactor.is_clean(raw)


def test_what_is_not_secret_keeps_its_spelling(redactor: Redactor) -> None:
    raw = (
        b'{ "n": 1.50e+03, "u": "caf\\u00e9 \\/ \\ud83d\\ude00",\n\t"to": "jane@example.com",'
        b' "big": 123456789012345678901234567890 }'
    )

    after = redactor.raw(raw)

    assert after == raw.replace(b"jane@example.com", stand_in("email", MAIL).encode())


def test_names_take_whole_values_and_leave_what_is_none(redactor: Redactor) -> None:
    value = {
        "password": "correct horse battery",
        "pin": 1234,
        "ssn": 123456789,
        "card_number": 4111111111111111,
        "phone": "0123 4567",
        "ok": {"password": True, "token": None, "max_tokens": 100},
        "tokens": ["one", "two"],
    }

    after = redactor.value(value)

    assert after["password"] == stand_in("secret", "correct horse battery")
    assert after["pin"] == stand_in("secret", "1234")
    assert after["ssn"] == int(stand_in("ssn", "123456789"))
    assert after["card_number"] == int(stand_in("card", "4111111111111111"))
    assert after["phone"] == stand_in("phone", "01234567")
    assert after["ok"] == value["ok"]
    assert after["tokens"] == value["tokens"]


def test_a_name_that_is_a_value_tells_too(redactor: Redactor) -> None:
    after = redactor.value(
        [{"name": "API_KEY", "type": "env", "value": "zz11yy22xx33"}, {"name": "HOME", "value": "/root"}]
    )

    assert after[0]["value"] == stand_in("secret", "zz11yy22xx33")
    assert after[1]["value"] == "/root"


def test_a_value_found_once_is_replaced_everywhere(redactor: Redactor) -> None:
    after = redactor.value({"password": "Tr0ub4dor&3x", "log": "tried Tr0ub4dor&3x and failed"})

    assert "Tr0ub4dor" not in str(after)
    assert after["log"] == f"tried {stand_in('secret', 'Tr0ub4dor&3x')} and failed"


def test_a_key_that_is_there_twice_hides_nothing(redactor: Redactor) -> None:
    after = redactor.raw(b'{"password": "first-0ne", "password": "second-0ne"}')

    assert b"first" not in after
    assert b"second" not in after


def test_escapes_hide_nothing(redactor: Redactor) -> None:
    after = redactor.raw(b'{"to": "jane\\u0040example.com", "\\u0070assword": "hunter2"}')

    assert json.loads(after) == {"to": stand_in("email", MAIL), "password": stand_in("secret", "hunter2")}


def test_values_beyond_json_come_back_as_they_were(redactor: Redactor) -> None:
    when = dt.datetime(2026, 1, 2, tzinfo=dt.UTC)

    after = redactor.value({"when": when, "pair": (MAIL, 1), "data": f"x {MAIL}".encode()})

    assert after["when"] == when
    assert after["pair"] == (stand_in("email", MAIL), 1)
    assert MAIL.encode() not in after["data"]


def test_a_name_may_be_given_for_a_bare_value(redactor: Redactor) -> None:
    assert redactor.value("hunter2", name="password") == stand_in("secret", "hunter2")
    assert redactor.value(1234, name="pin") == stand_in("secret", "1234")
    assert redactor.value("hunter2", name="nickname") == "hunter2"
    assert redactor.value(True, name="password") is True


def test_headers_keep_their_scheme_and_cookies_their_names(redactor: Redactor) -> None:
    assert redactor.header("Authorization", "Bearer abc") == f"Bearer {stand_in('secret', 'abc')}"
    assert redactor.header("set-cookie", "sid=1; Path=/") == f"sid={stand_in('secret', '1')}; Path=/"
    assert redactor.header("X-Api-Key", "short") == stand_in("secret", "short")
    assert redactor.header("x-ratelimit-remaining-tokens", "1999") == "1999"
    assert redactor.header("content-type", "application/json") == "application/json"
    assert redactor.header("from", MAIL) == stand_in("email", MAIL)
    once = redactor.header("Authorization", "Bearer abc")
    assert redactor.header("Authorization", once) == once


def test_parameters_of_a_url_tell_where_names_in_text_do_not(redactor: Redactor) -> None:
    url = "https://example.com/v1?key=AbC123dEf456GhI789&page=2"

    after = redactor.url(url)

    assert "AbC123" not in after
    assert after.endswith("&page=2")
    assert redactor.url(after) == after
    assert redactor.url("https://example.com/v1?key=name&page=2") == "https://example.com/v1?key=name&page=2"


def test_a_project_adds_names_paths_and_exceptions() -> None:
    rules = with_additions(
        keys=["customer_name"],
        headers=["x-internal"],
        paths=["get_user:$.address", "$..note"],
        allow=["help@example.com"],
    )
    redactor = Redactor(KEY, rules)
    value = {
        "customerName": "Jane",
        "address": {"street": "High St", "no": 4, "ok": True},
        "a": [{"note": "n"}],
        "to": "help@example.com",
    }

    there = redactor.value(value, tool="get_user")
    elsewhere = redactor.value(value, tool="other")

    assert there["customerName"] == stand_in("secret", "Jane")
    assert there["address"] == {"street": stand_in("secret", "High St"), "no": stand_in("secret", "4"), "ok": True}
    assert there["a"] == [{"note": stand_in("secret", "n")}]
    assert there["to"] == "help@example.com"
    assert elsewhere["address"] == value["address"]
    assert redactor.text("customer_name: Janet7") != "customer_name: Janet7"
    assert redactor.header("X-Internal", "abc") == stand_in("secret", "abc")
    with pytest.raises(ValueError, match="letters"):
        with_additions(keys=["--"])


def test_a_scan_tells_line_column_and_path(redactor: Redactor) -> None:
    (first, second) = redactor.scan("one\n two password=hunter2x\nthree jane@example.com")
    assert (first.kind, first.line, first.column, first.path) == ("secret", 2, 15, "")
    assert (second.kind, second.line, second.column) == ("email", 3, 7)

    (found,) = redactor.scan({"a": [{"to": MAIL}]})
    assert (found.kind, found.path) == ("email", "$.a[0].to")
    assert redactor.scan("nothing") == []


def test_a_key_must_not_be_empty() -> None:
    with pytest.raises(ValueError, match="at least one byte"):
        Redactor(b"", DEFAULT)
    assert isinstance(DEFAULT, Rules)


def test_a_cookie_that_a_recording_has_hidden_stays(redactor: Redactor) -> None:
    recorded = '[["Set-Cookie", "session=hidden; Path=/; HttpOnly"], ["Content-Type", "text/plain"]]'
    two = '[["Set-Cookie", "session=hidden; sid=abcdefghijklmnop"], ["Content-Type", "text/plain"]]'

    assert redactor.text(recorded) == recorded
    assert "abcdefghijklmnop" not in redactor.text(two)


@pytest.mark.parametrize(
    "cookie",
    [
        "sidebar=hidden; Path=/, session=k3jh5g2jk3hg5kjh; HttpOnly",
        "sidebar=hidden; k3jh5g2jk3hg5kjh",
        "session=k3jh5g2jk3hg5kjh&sidebar=hidden",
        "sidebar=hidden; comment=k3jh5g2jk3hg5kjh",
    ],
)
def test_a_hidden_cookie_hides_nothing_beside_it(redactor: Redactor, cookie: str) -> None:
    assert "k3jh5g2jk3hg5kjh" not in redactor.text(json.dumps([["Set-Cookie", cookie]]))


@pytest.mark.parametrize(
    "attributes",
    ["", "; Secure", "; Expires=Wed, 21 Oct 2026 07:28:00 GMT; Path=/", "; Max-Age=3600; SameSite=Lax; HttpOnly"],
)
def test_a_hidden_cookie_keeps_its_attributes(redactor: Redactor, attributes: str) -> None:
    text = json.dumps([["Set-Cookie", f"session=hidden{attributes}"]])

    assert redactor.text(text) == text


def test_a_cookie_keeps_its_name_and_its_attributes(redactor: Redactor) -> None:
    shown = redactor.header(
        "Set-Cookie", "sid=a8f5f167f44f4964; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly"
    )

    assert re.fullmatch(r"sid=<secret:[0-9a-f]{8}>; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT; HttpOnly", shown)
    assert redactor.header("cookie", shown.partition(";")[0] + "; theme=dark").endswith("; theme=dark")


@pytest.mark.parametrize(
    "text",
    [
        "[10:23] kora: item = {0}",
        "[section]\nvalue = {0}",
        "2026-03-04T10:22:31.118Z level=warn note={0}",
        '"quoted" {0}',
        "-1 {0}",
    ],
)
def test_text_that_only_begins_like_json_is_text(redactor: Redactor, text: str) -> None:
    said = text.format("ghp_" + "x" * 30 + " and jane.doe@example.com").encode()

    assert b"jane.doe" not in redactor.raw(said)


def test_a_list_of_pairs_is_read_as_names_and_values(redactor: Redactor) -> None:
    asked = {"query": [["pin", "739204"], ["q", "hello"]], "rows": [["name", "token"], ["x", "y"]]}

    shown = redactor.value(asked)

    assert shown["query"] == [["pin", stand_in("secret", "739204")], ["q", "hello"]]
    assert shown["rows"] == asked["rows"]
    assert redactor.value(["pin", "739204"]) == ["pin", "739204"]


@pytest.mark.parametrize("text", ['{"password":["%s"]}', '{"a": 1, "api_key" : [ "%s", "b" ]}', '[{"token": ["%s"]}]'])
def test_texts_in_a_list_are_told_by_the_name_of_the_list(text: str) -> None:
    secret = "Zk93nf83jfA8s7dfh2kq"

    assert secret not in Redactor(KEY).text(text % secret)
