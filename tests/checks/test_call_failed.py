"""When a call counts as failed."""

from __future__ import annotations

import pytest

from replaykit.checks.failures import call_failed
from replaykit.model.events import ErrorInfo, ToolCall
from replaykit.model.values import raw


def call(result) -> ToolCall:
    return ToolCall(seq=0, name="t", result_json=raw(result))


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ("Error: billing service timeout", "Error: billing service timeout"),
        ("error: no such file", "error: no such file"),
        ("  Exception in thread", "Exception in thread"),
        ("Traceback (most recent call last):\n  ...", "Traceback (most recent call last): ..."),
        ("TimeoutError: 30 s", "TimeoutError: 30 s"),
        ({"error": "not found"}, "not found"),
        ({"error": {"type": "x", "message": "card declined"}}, "card declined"),
        ({"errors": ["a", "b"]}, "['a', 'b']"),
        ({"is_error": True, "content": "no"}, "is_error: no"),
        ({"status": 504, "message": "upstream timed out"}, "status 504: upstream timed out"),
        ({"status_code": 400}, "status_code 400"),
        ({"code": 599}, "code 599"),
        ('{"error": "no such order"}', "no such order"),
        ('{"success": false, "message": "out of stock"}', "success is false: out of stock"),
        ({"ok": False}, "ok is false"),
        ({"status": "failed", "reason": "quota"}, "status failed: quota"),
        ({"status": "error", "data": None}, "status error"),
        ({"result": {"error": "denied"}}, "denied"),
        ({"isError": True, "content": [{"type": "text", "text": "boom"}]}, "is_error: boom"),
        ([{"type": "text", "text": "Error: boom"}], "Error: boom"),
        ({"statusCode": "503"}, "statusCode 503"),
        ("HTTP 503", "HTTP 503"),
        ("Request failed with status code 404", "Request failed with status code 404"),
        ("<html><title>502 Bad Gateway</title>" + " " * 500, "<html><title>502 Bad Gateway</title>"),
        ("3 passed\nTraceback (most recent call last):\n  File x\nKeyError: 'a'", "KeyError: 'a'"),
        ("Failed to fetch the page", "Failed to fetch the page"),
        ("Could not connect to the database", "Could not connect to the database"),
        ("Fehler beim Laden der Seite", "Fehler beim Laden der Seite"),
        ("Die Bestellung konnte nicht geladen werden", "Die Bestellung konnte nicht geladen werden"),
        ("Impossible de joindre le serveur", "Impossible de joindre le serveur"),
        ("Une erreur s'est produite", "Une erreur s'est produite"),
        ("No se pudo conectar", "No se pudo conectar"),
        ("Não foi possível obter os dados", "Não foi possível obter os dados"),
        ("Impossibile trovare il cliente", "Impossibile trovare il cliente"),
        ("Er is een fout opgetreden", "Er is een fout opgetreden"),
        ("Nie udało się połączyć", "Nie udało się połączyć"),
        ("Не удалось подключиться", "Не удалось подключиться"),
        ("データの取得に失敗しました", "データの取得に失敗しました"),
        ("请求超时", "请求超时"),
        ("无法连接到服务器", "无法连接到服务器"),
    ],
)
def test_a_result_that_looks_like_an_error_is_a_failure(result, reason):
    assert call_failed(call(result)) == reason


@pytest.mark.parametrize(
    "result",
    [
        None,
        "All good",
        "Errors were not found",
        "no error: fine",
        {},
        {"error": None, "errors": [], "is_error": False},
        {"status": 200},
        {"status": "shipped"},
        {"code": 90210},
        {"status": True},
        ["Error: in a list"],
        404,
        {"error": "none"},
        {"status": "failed", "payment_id": 7, "amount": 12},  # a payment that was looked up
        '{"orders": [{"error": "late"}]}',
        {"content": [{"type": "text", "text": "Error: quoted"}], "isError": False},
        "There were 503 visitors",
        "The error handling of chapter 3 could not be better. " * 10,
        "Log:\nTraceback (most recent call last):\n  File x\nKeyError: 'a'\nrecovered, all 12 tests pass",
        "Le taux d'erreur est faible",
        "エラー率は3%です",
    ],
)
def test_other_results_are_not(result):
    assert call_failed(call(result)) is None


def test_a_call_that_raised_failed():
    failed = ToolCall(seq=0, name="t", error=ErrorInfo(type="TimeoutError", message="30 s"))

    assert call_failed(failed) == "TimeoutError: 30 s"


def test_a_call_without_an_outcome_did_not_fail():
    assert call_failed(ToolCall(seq=0, name="t")) is None


def test_a_reason_is_one_line_of_bounded_length():
    reason = call_failed(call("Error: " + "x\n" * 5000))

    assert reason is not None
    assert len(reason) <= 200
    assert "\n" not in reason
