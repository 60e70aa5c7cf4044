"""How finders are scored: what counts as found, named, covered and right, and what the reports may show."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from bench.redaction import corpus, figures, kinds
from bench.redaction.corpus import HELD_OUT, TUNING, Sample
from bench.redaction.marked import OPINION, Span
from bench.redaction.score import Find, Found, score

ROOT = Path(__file__).parents[2]
TEXT = "user kora, mail k@v.de, key 0123456789"
MAIL, KEY = Span(16, 22, "email"), Span(28, 38, "github")


def sample(*spans: Span) -> Sample:
    return Sample(TEXT, spans, "form", "place", TUNING, unseen=False)


def finds(*found: Found) -> Find:
    return lambda text: list(found)


LABELS = {sample.text: sample.spans for sample in corpus.corpus()}


def perfect(text: str) -> list[Found]:
    """A finder that has read the labels."""
    return [Found(span.start, span.end, kinds.family(span.kind)) for span in LABELS[text] if span.kind != OPINION]


def test_a_finding_that_touches_a_span_has_found_it_and_is_right() -> None:
    result = score(finds(Found(15, 17, "email")), [sample(MAIL)])

    assert (result.all.found, result.all.named, result.all.right, result.all.exact) == (1, 1, 1, 1)
    assert result.all.covered == 0


def test_a_finding_that_ends_where_a_span_begins_has_not_found_it() -> None:
    result = score(finds(Found(0, 16, "email"), Found(22, 24, "email")), [sample(MAIL)])

    assert result.all.recall == 0
    assert result.all.precision == 0
    assert result.missed == [(sample(MAIL), MAIL)]
    assert [found for _, found in result.alarms] == [Found(0, 16, "email"), Found(22, 24, "email")]


def test_a_secret_by_another_name_is_found_but_not_named() -> None:
    result = score(finds(Found(28, 38, "phone")), [sample(KEY)])

    assert result.of_group(kinds.SECRETS).recall == 1
    assert result.of_group(kinds.SECRETS).named_recall == 0
    assert result.all.precision == 1
    assert result.all.exact_precision == 0


def test_a_span_is_covered_by_findings_that_together_leave_nothing_of_it() -> None:
    together = score(finds(Found(33, 40, "secret"), Found(28, 33, "secret")), [sample(KEY)])
    with_a_gap = score(finds(Found(28, 32, "secret"), Found(33, 38, "secret")), [sample(KEY)])

    assert together.all.covered_recall == 1
    assert with_a_gap.all.covered_recall == 0
    assert with_a_gap.all.recall == 1


def test_a_matter_of_opinion_counts_neither_way() -> None:
    opinion = Span(5, 9, OPINION)

    found = score(finds(Found(5, 9, "secret")), [sample(opinion)])
    missed = score(finds(), [sample(opinion)])

    assert found.all.findings == missed.all.spans == found.all.spans == 0


def test_one_finding_over_two_spans_finds_both() -> None:
    result = score(finds(Found(0, 38, "secret")), [sample(MAIL, KEY)])

    assert result.all.found == 2
    assert result.all.named == 1
    assert result.all.findings == 1


def test_groups_are_counted_apart() -> None:
    result = score(finds(Found(16, 22, "email")), [sample(MAIL, KEY)])

    assert result.of_group(kinds.PERSONAL).recall == 1
    assert result.of_group(kinds.SECRETS).recall == 0
    assert result.of_group(kinds.CHECKED).spans == 0


def test_a_finder_that_knows_the_labels_has_full_marks() -> None:
    result = score(perfect, corpus.corpus()[::7])

    assert result.all.spans > 100
    assert (result.all.recall, result.all.named_recall, result.all.covered_recall) == (1, 1, 1)
    assert (result.all.precision, result.all.exact_precision) == (1, 1)


def test_a_finder_that_takes_everything_for_a_secret_is_wrong_in_every_harmless_text() -> None:
    result = score(lambda text: [Found(0, len(text), "secret")], corpus.half(HELD_OUT))
    harmless = sum(not sample.spans for sample in corpus.half(HELD_OUT))

    assert result.all.recall == 1
    assert len(result.alarms) == harmless
    assert result.all.precision < 0.7


def wrong(text: str) -> list[Found]:
    return [Found(0, 3, "phone")]


def test_the_held_out_half_gives_figures_and_no_sample() -> None:
    options = figures.parse_arguments(["--half", HELD_OUT])

    said = figures.report(wrong, options)

    assert "= secrets" in said
    assert not any(line and line in said for sample in corpus.half(HELD_OUT) for line in [sample.text, sample.template])


def test_the_held_out_half_refuses_to_show_its_misses(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        figures.parse_arguments(["--half", HELD_OUT, "--misses"])

    assert caught.value.code == 2
    assert "use --half tuning" in capsys.readouterr().err


def test_the_tuning_half_shows_what_was_missed_and_what_was_found_wrongly() -> None:
    said = figures.report(wrong, figures.parse_arguments(["--misses"]))

    result = score(wrong, corpus.half(TUNING))
    (missed, span), (alarm, _) = result.missed[0], result.alarms[0]
    assert f"missed: {len(result.missed)}" in said
    assert repr(missed.text[span.start : span.end]) in said
    assert f"found wrongly: {len(result.alarms)}" in said
    assert repr(alarm.text) in said
    assert not any(repr(sample.text) in said for sample in corpus.half(HELD_OUT))


def test_figures_of_one_kind_are_of_that_kind_and_the_harmless() -> None:
    told = json.loads(figures.report(perfect, figures.parse_arguments(["--kind", "card", "--json"])))

    assert list(told["kinds"]) == ["card"]
    assert told["kinds"]["card"]["found"] == 1
    assert told["findings"]["all"]["count"] == told["kinds"]["card"]["spans"]


def test_a_kind_that_is_not_there_is_answered_with_those_that_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        figures.parse_arguments(["--kind", "cards"])

    assert "no kind 'cards'; there are anthropic, aws-key-id" in capsys.readouterr().err


def in_bench(program: str) -> str:
    """What a program prints that runs where the benchmarks do, with their modules at hand."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "bench")}
    done = subprocess.run(
        [sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout + done.stderr


def test_a_finder_that_finds_nothing_fails_instead_of_getting_figures() -> None:
    said = in_bench("from redaction.measure import accuracy; accuracy(lambda text: [])")

    assert "AssertionError: it found nothing at all" in said


def test_measures_of_a_finder_that_takes_everything() -> None:
    said = in_bench(
        "import json\nfrom redaction.measure import Found, accuracy, speed\n"
        "find = lambda text: [Found(0, len(text), 'secret')]\n"
        "print(json.dumps({**accuracy(find), **speed(find, 8192)}))"
    )

    numbers = json.loads(said)
    assert numbers["secrets"] == numbers["secrets_covered"] == numbers["unseen_secrets"] == numbers["card"] == 1
    assert numbers["checked_named"] == 0
    assert 0.3 < numbers["precision"] < 0.7
    assert numbers["alarms"] == pytest.approx(1e6 / 4096)
    assert numbers["corpus_us"] > 0
    assert numbers["prose_us"] > 0


def test_what_a_redactor_leaves_is_seen_and_what_it_takes_out_is_gone() -> None:
    said = in_bench(
        "from redaction.measure import gone\nkept, wiped = gone(bytes), gone(lambda raw: b'')\n"
        "print(sorted(set(kept.values())), sorted(set(wiped.values())), sorted(kept))"
    )

    assert said.strip() == "[0.0] [1.0] ['checked_gone', 'personal_gone', 'secrets_gone']"


@pytest.mark.parametrize(("value", "met"), [(0.951, "yes"), (0.95, "yes"), (0.91, "missed by 0.040")])
def test_an_aim_from_below_is_met_by_as_much_or_more(value: float, met: str) -> None:
    said = in_bench(
        "import table\nfrom rows import Aim, Cell, Job, Row\n"
        "job = Job('ours', 'redaction')\n"
        "row = Row('redaction', 'found', 'part', Cell(job, 'n'), aim=Aim('', least=0.95))\n"
        f"line = table.fill(row, {{job: [{{'numbers': {{'n': {value}}}}}]}})\nprint(line.met, table.show(1.0, 'part'))"
    )

    assert said.strip() == f"{met} 1.00"
