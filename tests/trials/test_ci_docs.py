"""The page on `ci` names every key of its result, and its examples are YAML."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
import yaml

from replaykit.cases.run_session import SeenCall
from replaykit.trials.ci_result import CiItem, CiPart, CiResult

PAGE = (Path(__file__).parents[2] / "docs" / "ci.md").read_text(encoding="utf-8")
KEYS = {field.encode_name for kind in (CiResult, CiPart, CiItem, SeenCall) for field in msgspec.structs.fields(kind)}


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_is_described(key: str) -> None:
    assert re.search(rf"^\|.*`{key}`", PAGE, re.MULTILINE)


def test_the_pipelines_are_yaml_and_run_ci() -> None:
    texts = re.findall(r"^```yaml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    assert len(texts) == 5
    for text in texts:
        assert isinstance(yaml.safe_load(text), dict)
        assert "replaykit ci" in text
