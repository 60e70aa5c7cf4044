"""The glossary: one meaning for each word, one class for each name, and modules named by words that it lists."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "replaykit"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")


def terms(section: str) -> list[str]:
    """Return the first column of a table of the glossary."""
    part = GLOSSARY.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| ([^|]+) \|", part, re.MULTILINE)
    return [row.strip() for row in rows if row.strip() != "word"]


def vocabulary() -> set[str]:
    listed = GLOSSARY.partition("## Words in module names\n")[2]
    words = set(re.findall(r"[a-z][a-z0-9]*", listed))
    for term in terms("Nouns") + terms("Verbs"):
        words.update(term.lower().split())
    return words


def test_each_word_is_defined_once() -> None:
    for section in ("Nouns", "Verbs"):
        defined = terms(section)

        assert defined
        assert sorted(defined) == sorted(set(defined))


def test_each_class_has_a_name_of_its_own() -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in sorted(SOURCE.rglob("*.py"))}
    written = {path: re.findall(r"^\s*class\s+(\w+)", text, re.MULTILINE) for path, text in texts.items()}
    counts = Counter(name for names in written.values() for name in names)
    places = defaultdict(list)
    for path, text in texts.items():
        if not any(counts[name] > 1 for name in written[path]):
            continue  # not worth parsing
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")

    repeated = {name: found for name, found in places.items() if len(found) > 1}

    assert repeated == {}


def test_modules_are_named_by_words_of_the_glossary() -> None:
    known = vocabulary()
    unknown = set()
    for path in SOURCE.rglob("*.py"):
        for part in path.relative_to(SOURCE).with_suffix("").parts:
            for word in part.strip("_").split("_"):
                if word not in known | {"init"} and word.removesuffix("s") not in known:
                    unknown.add(f"{word} ({path.relative_to(ROOT)})")

    assert unknown == set()
