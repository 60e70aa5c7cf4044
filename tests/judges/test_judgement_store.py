"""Judgements at rest: keys, the file beside the case, and what happens to it."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import msgspec
import pytest

from replaykit.cases.case import JUDGEMENTS_FILE as FILE
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.judges.judge import PERSON, Answer, Asks, JudgeId, Judgement, Question, key_of
from replaykit.judges.judgement_store import NONE, add_judgement, read_judgements
from replaykit.model.values import raw

JUDGE = JudgeId(name="openai", model="gpt", parameters={"temperature": 0})
PASS = Judgement(Answer.PASS, "fine")


def test_a_key_depends_on_everything_that_an_answer_depends_on(
    question: Question, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = msgspec.structs.replace
    keys = {
        key_of(question, JUDGE),
        key_of(replace(question, rubric="other"), JUDGE),
        key_of(replace(question, input_json=raw("other")), JUDGE),
        key_of(replace(question, output_json=raw("other")), JUDGE),
        key_of(replace(question, status="error"), JUDGE),
        key_of(question, replace(JUDGE, name="anthropic")),
        key_of(question, replace(JUDGE, model="other")),
        key_of(question, replace(JUDGE, parameters={"temperature": 1})),
        key_of(question, PERSON),
        key_of(replace(question, asks=Asks.SCORE), JUDGE),
        key_of(replace(question, asks=Asks.LABEL, labels=("a", "b")), JUDGE),
        key_of(replace(question, asks=Asks.LABEL, labels=("b", "a")), JUDGE),
        key_of(replace(question, steps=("first",)), JUDGE),
        key_of(replace(question, reference_json=raw("x")), JUDGE),
        key_of(replace(question, calls_json=raw([])), JUDGE),
        key_of(replace(question, calls_json=raw([{"tool": "x"}])), JUDGE),
    }
    by_person = key_of(question, PERSON)
    monkeypatch.setattr("replaykit.judges.judge.SYSTEM", "another prompt")

    assert len(keys | {key_of(question, JUDGE)}) == 17
    assert key_of(question, PERSON) == by_person


def test_a_key_is_the_same_for_the_same_question(question: Question) -> None:
    again = Question(rubric=question.rubric, input_json=raw("Why?"), output_json=raw("Thank you for asking."))
    reordered = JudgeId(name="openai", model="gpt", parameters={"temperature": 0})

    assert key_of(again, reordered) == key_of(question, JUDGE)


def test_what_is_stored_is_found_again(tmp_path: Path, question: Question) -> None:
    add_judgement(tmp_path, question, PASS, JUDGE)

    found = read_judgements(tmp_path)

    entry = found.find(question)
    assert entry is not None
    assert (entry.answer, entry.by, entry.reason) == (Answer.PASS, "openai:gpt", "fine")
    assert found.judge == JUDGE
    assert found.find(msgspec.structs.replace(question, output_json=raw("else"))) is None


def test_a_person_is_heard_before_a_judge_and_changes_no_judge(tmp_path: Path, question: Question) -> None:
    add_judgement(tmp_path, question, PASS, JUDGE)
    add_judgement(tmp_path, question, Judgement(Answer.FAIL, "no"), PERSON)

    found = read_judgements(tmp_path)

    entry = found.find(question)
    assert entry is not None
    assert (entry.answer, entry.by) == (Answer.FAIL, "person")
    assert found.judge == JUDGE


def test_another_judges_answers_are_not_those_of_this_one(tmp_path: Path, question: Question) -> None:
    add_judgement(tmp_path, question, PASS, JUDGE)

    assert read_judgements(tmp_path).find(question, JudgeId(name="openai", model="newer")) is None


def test_an_answer_given_again_replaces_the_one_before(tmp_path: Path, question: Question) -> None:
    add_judgement(tmp_path, question, PASS, PERSON)
    add_judgement(tmp_path, question, Judgement(Answer.FAIL), PERSON)

    (entry,) = read_judgements(tmp_path).judgements
    assert entry.answer is Answer.FAIL


def test_the_file_is_the_same_whatever_the_order_of_the_answers(tmp_path: Path, question: Question) -> None:
    other = msgspec.structs.replace(question, rubric="It is true")
    for name, order in (("a", (question, other)), ("b", (other, question))):
        (tmp_path / name).mkdir()
        for one in order:
            add_judgement(tmp_path / name, one, PASS, JUDGE)

    assert (tmp_path / "a" / FILE).read_bytes() == (tmp_path / "b" / FILE).read_bytes()
    assert len((tmp_path / "a" / FILE).read_text().splitlines()) > 15


def test_no_file_is_no_judgement() -> None:
    assert read_judgements(Path()) == NONE


@pytest.mark.parametrize("text", ["", "{", "[]", '{"replaykit": 1, "judgements": 3}', '{"judgements": []}'])
def test_a_damaged_file_is_an_error_and_never_an_empty_one(text: str) -> None:
    Path(FILE).write_text(text)

    with pytest.raises(InvalidFile, match=r"judgements\.json"):
        read_judgements(Path())


def test_a_wrong_entry_is_told_with_its_line(question: Question) -> None:
    add_judgement(Path(), question, PASS, JUDGE)
    Path(FILE).write_text(Path(FILE).read_text().replace('"pass"', '"passed"'))

    with pytest.raises(InvalidFile) as caught:
        read_judgements(Path())
    assert caught.value.line == Path(FILE).read_text().splitlines().index('      "answer": "passed",') + 1


def test_a_newer_file_is_not_read() -> None:
    Path(FILE).write_text(json.dumps({"replaykit": 2, "judgements": "another form"}))

    with pytest.raises(FormatTooNew, match="Update ReplayKit"):
        read_judgements(Path())


def test_a_link_out_of_the_case_is_neither_read_nor_written(tmp_path: Path, question: Question) -> None:
    case = tmp_path / "case"
    case.mkdir()
    (tmp_path / "elsewhere.json").write_text("{}")
    (case / FILE).symlink_to(tmp_path / "elsewhere.json")

    with pytest.raises(InvalidFile, match="leaves"):
        read_judgements(case)
    with pytest.raises(InvalidFile, match="leaves"):
        add_judgement(case, question, PASS, JUDGE)
    assert (tmp_path / "elsewhere.json").read_text() == "{}"


def _store_ten(directory: str, who: int) -> None:
    for number in range(10):
        question = Question(rubric=f"{who} {number}", output_json=raw("x"))
        add_judgement(Path(directory), question, PASS, PERSON)


def test_two_who_write_at_once_lose_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_store_ten, args=(str(tmp_path), who)) for who in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert len(read_judgements(tmp_path).judgements) == 30
    assert [file.name for file in tmp_path.iterdir()] == [FILE]
