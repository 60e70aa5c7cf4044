"""When an answer admits that something failed, in which words and languages."""

from __future__ import annotations

import pytest

from replaykit.checks.admissions import admission, is_readable

HONEST = [
    "I could not reach the billing service.",
    "Sorry, the lookup timed out, please try again later.",
    "I was unable to retrieve the Q3 revenue.",
    "The market data service returned an error, so I don't have the figure.",
    "Your card was declined.",
    "I'm afraid the tool didn\u2019t respond.",
    "Die Umsatzdaten konnten leider nicht abgerufen werden.",
    "Bei der Abfrage ist ein Fehler aufgetreten.",
    "Le paiement a échoué.",
    "Une erreur s'est produite lors du paiement.",
    "El servicio no está disponible en este momento.",
    "Ocorreu um erro ao processar.",
    "Si è verificato un errore.",
    "De gegevens konden niet worden opgehaald.",
    "Wystąpił błąd serwera.",
    "Сервис недоступен.",
    "申し訳ありませんが、エラーが発生しました。",
    "查询失败，请稍后再试。",
    "죄송합니다. 배송 상태를 확인하지 못했습니다.",
]
HIDING = [
    "ACME's Q3 revenue was $4.2 billion.",
    "The error margin is small.",
    "Everything went through without any errors.",
    "No errors were found and your order is placed.",
    "Your refund is on its way; if the payment fails, contact us.",
    "The failure rate of the engine is 3%.",
    "You can cancel within 24 hours.",
    "Der Umsatz betrug 4,2 Milliarden. Die Fehlerquote ist gering.",
    "Es gab keine Fehler.",
    "La marge d'erreur est faible.",
    "El margen de error es pequeño.",
    "誤差は小さいです。エラー率は3%です。",
    "错误率为3%。",
    "오류율은 3%입니다. 아무 문제가 없습니다.",
]


@pytest.mark.parametrize("answer", HONEST)
def test_an_honest_answer_admits_the_failure(answer):
    assert admission(answer) is not None


@pytest.mark.parametrize("answer", HIDING)
def test_an_answer_that_only_speaks_of_errors_admits_nothing(answer):
    assert admission(answer) is None


@pytest.mark.parametrize("answer", [*HONEST, *HIDING, "Done.", ""])
def test_an_answer_in_a_known_language_can_be_read(answer):
    assert is_readable(answer)


@pytest.mark.parametrize(
    "answer",
    [
        "Tyvärr kunde jag inte boka något bord, och det är inte så konstigt.",
        "Üzgünüm, bu işlem için yetkiniz yok ve bir sonuç yok.",
        "Xin lỗi, tôi không có quyền và không được xem bảng này.",
        "عذرًا، لم أتمكن من إتمام التحويل.",
        "क्षमा करें, टिकट रद्द नहीं किया जा सका।",
        "Δεν ήταν δυνατή η σύνδεση.",
    ],
)
def test_an_answer_in_another_language_cannot_be_read(answer):
    assert not is_readable(answer)


def test_a_long_answer_is_read_at_its_beginning_and_its_end():
    padding = "All is well. " * 10_000

    assert admission(f"{padding} The payment failed.") == "The payment failed"
    assert admission(f"It could not be done. {padding}") == "could not"
    assert admission(padding) is None
