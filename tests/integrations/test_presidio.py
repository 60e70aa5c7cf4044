"""Names of people, found by the real presidio with a small model of spaCy made here."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from replaykit.errors import UsageError
from replaykit.redaction.names import PresidioNames, installed_finder
from replaykit.redaction.redactor import Redactor

# Its own imports warn, of things that are theirs.
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    spacy = pytest.importorskip("spacy")
    pytest.importorskip("presidio_analyzer")

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def names(tmp_path_factory: pytest.TempPathFactory) -> PresidioNames:
    """A model that knows two people: no model that was trained can be had without a network."""
    model = spacy.blank("en")
    ruler = model.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "PERSON", "pattern": name} for name in ("Jane Doe", "Aylin Yılmaz")])
    directory: Path = tmp_path_factory.mktemp("models") / "en_people"
    model.to_disk(directory)
    return PresidioNames.of_model(str(directory))


def test_names_are_replaced_wherever_they_stand(names: PresidioNames) -> None:
    redactor = Redactor(b"k" * 32, names=names)

    found = redactor.value({"note": "Jane Doe wrote to Aylin Yılmaz", "to": ["Jane Doe"], "n": 3})

    first = found["to"][0]
    assert first.startswith("<name:")
    assert found["note"].startswith(f"{first} wrote to <name:")
    assert "Aylin" not in str(found)
    assert redactor.value(found) == found


def test_text_without_names_stays_as_it_is(names: PresidioNames) -> None:
    text = "The order was sent on Monday."

    assert Redactor(b"k" * 32, names=names).text(text) is text


def test_no_model_is_downloaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spacy.cli.download", lambda *_: pytest.fail("asked the network for a model"))
    monkeypatch.setattr("spacy.util.get_installed_models", list)

    with pytest.raises(UsageError, match="no English model") as caught:
        installed_finder()

    assert "python -m spacy download" in str(caught.value)


def test_the_largest_model_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = ["en_core_web_md", "de_core_news_lg", "en_core_web_lg", "en_core_web_sm"]
    monkeypatch.setattr("spacy.util.get_installed_models", lambda: installed)
    asked: list[str] = []
    monkeypatch.setattr(PresidioNames, "of_model", asked.append)

    installed_finder()

    assert asked == ["en_core_web_lg"]
