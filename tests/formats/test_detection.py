"""A file is of one format. Where it looks like two, the order of the formats decides, and rightly."""

from __future__ import annotations

from fnmatch import fnmatch

import pytest
from tests.formats.examples import examples
from tests.formats.format_coverage import ONLY_LOGS, OTHERS, STORIES, files_of
from tests.formats.samples import corpora_below, corpus, sample, samples_below
from tests.formats.test_all_corpora import CORPORA, NO_TRACES

from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source, read_source
from replaykit.formats.files import recognise

LOOK_ALIKE = {
    "ag_ui/events.sse": ("ag_ui", "openai_chat"),
    "anthropic_messages/messages.json": ("anthropic", "openai_chat"),
    "anthropic_messages/request_response_pairs.json": ("anthropic", "openai_chat"),
    "openai_agents/to_input_list.json": ("openai_responses", "openai_chat"),
    "openai_responses/input_items.json": ("openai_responses", "openai_chat"),
    "vercel_ai_sdk/generateText_response_messages.json": ("ai_sdk", "openai_chat"),
    "vercel_ai_sdk/generateText_steps.json": ("ai_sdk", "openai_chat"),
    "vercel_ai_sdk/streamText_fullStream_parts.json": ("ai_sdk", "openai_chat"),
    "vercel_ai_sdk_v7/generateText_steps.json": ("ai_sdk", "openai_chat"),
}
"""Files that hold messages as OpenAI's chat has them as well, so it comes after what else they are: some messages have
nothing but a role and a text, and steps of the AI SDK hold the requests as they went to OpenAI."""


def takers(source: Source) -> tuple[str, ...]:
    return tuple(importer.name for importer in IMPORTERS.values() if importer.recognises(source))


@pytest.mark.parametrize("name", samples_below("."))
def test_a_sample_is_taken_for_what_it_is(name: str) -> None:
    (format,) = [row.format for row in (*STORIES, *OTHERS, ONLY_LOGS) if fnmatch(name, row.files)]

    assert takers(read_source(sample(name))) == LOOK_ALIKE.get(name, (format,))


@pytest.mark.parametrize("directory", CORPORA)
def test_a_file_of_a_corpus_is_taken_for_what_it_is(directory: str) -> None:
    for name in corpora_below(directory):
        expected = () if name in NO_TRACES else (CORPORA[directory][0],)
        assert takers(read_source(corpus(name))) == expected, name


def test_the_order_decides_rightly() -> None:
    formats = {name: row.format for row in (*STORIES, *OTHERS) for name in files_of(row)}

    for name, found in LOOK_ALIKE.items():
        assert found[0] == formats[name]
        importer = recognise(read_source(sample(name)))
        assert importer is not None
        assert importer.name == formats[name]


def test_there_is_an_example_of_every_format_and_it_is_taken_for_that() -> None:
    assert sorted(examples()) == sorted(importer.name for importer in IMPORTERS.values())
    for format, content in examples().items():
        assert takers(Source(content, "x"))[0] == format


def test_a_file_is_tried_with_our_own_formats_first() -> None:
    assert [importer.name for importer in IMPORTERS.values()][:2] == ["replaykit", "run_log"]
