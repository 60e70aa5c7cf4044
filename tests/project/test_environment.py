"""Variables of the environment, and templates: what goes to the agent, and what is never shown."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replaykit.project.template import (
    NoSuchField,
    UnsetVariable,
    check_template,
    check_variables,
    expand,
    fill_template,
    fill_text,
)


def test_variables_are_filled_in_with_defaults_where_they_are_unset_or_empty() -> None:
    text = "${A}-${B:-two}-${C:-}-${D:-x:-y}"

    assert expand(text, {"A": "one", "D": ""}).text == "one-two--x:-y"


def test_a_variable_that_is_not_set_is_an_error_that_names_it_and_nothing_else() -> None:
    with pytest.raises(UnsetVariable, match="the environment variable KEY is not set"):
        expand("${TOKEN} ${KEY}", {"TOKEN": "secret"})


def test_a_value_is_not_expanded_again() -> None:
    assert expand("${A}", {"A": "${B}", "B": "no"}).text == "${B}"


def test_values_are_taken_out_of_what_is_shown() -> None:
    expanded = expand("Bearer ${TOKEN} ${LONGER}", {"TOKEN": "secret", "LONGER": "secret-and-more"})

    assert expanded.hide("it said secret-and-more, then secret") == "it said ${LONGER}, then ${TOKEN}"
    assert "secret" not in repr(expanded)


@pytest.mark.parametrize("text", ["${}", "${1A}", "${A B}", "${A-b}"])
def test_what_is_no_variable_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="is not a variable"):
        check_variables(text)


@given(st.text(), st.text())
def test_a_template_gives_json_whatever_the_input_holds(given_: str, context: str) -> None:
    template = '{"a\\"{prompt}": "x{prompt}y{context}", "b": [{input}, {context}]}'

    value = json.loads(fill_template(template, given_, context))

    assert value == {f'a"{given_}': f"x{given_}y{context}", "b": [given_, context]}


def test_members_of_an_input_fill_their_own_places() -> None:
    given_ = {"topic": "tax", "n": 3, "prompt": "mine"}

    filled = json.loads(fill_template('{"t": "{topic}", "n": {n}, "p": "{prompt}", "all": {input}}', given_))

    assert filled == {"t": "tax", "n": 3, "p": "mine", "all": given_}
    assert fill_text("{topic}/{n}", given_) == "tax/3"


def test_a_place_that_the_input_cannot_fill_is_an_error() -> None:
    with pytest.raises(NoSuchField, match=r"names \{topic\}"):
        fill_template('{"t": "{topic}"}', "a text")


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": "{prompt}"', '{"a": {prompt} {prompt}}'])
def test_a_template_that_gives_no_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="template"):
        check_template(text)
