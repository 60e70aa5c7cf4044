"""Rule files: a project's own, and those of gitleaks."""

from __future__ import annotations

import re
import time
from hashlib import sha256
from pathlib import Path

import pytest

from replaykit.errors import InvalidFile
from replaykit.redaction import Redactor, find, load_rules
from replaykit.redaction.re2 import compile_re2

GITLEAKS = r"""
title = "rules"
[extend]
useDefault = true
[allowlist]
paths = ["vendor/.*"]
regexes = ["never-a-secret"]
[[rules]]
id = "acme-token"
description = "ACME"
regex = '''(?i)\b(acme-[[:alnum:]]{10})(?:['"\s]|$)'''
secretGroup = 1
keywords = ["ACME-"]
entropy = 2.0
[[rules.allowlists]]
stopwords = ["dummy"]
regexes = ["^acme-0+$"]
[[rules]]
id = "names of files"
path = ".*\\.pem"
"""


def write(text: str, name: str = "rules.toml") -> Path:
    path = Path(name)
    path.write_text(text)
    return path


def test_rules_of_gitleaks_find_what_they_say() -> None:
    rules = load_rules(write(GITLEAKS))
    text = 'x = "ACME-a1b2c3d4e5"'

    assert [(found.kind, text[found.start : found.end]) for found in find(text, rules)] == [
        ("acme-token", "ACME-a1b2c3d4e5")
    ]
    assert find('"acme-dummya1b2c"', rules) == []
    assert find('"acme-0000000000"', rules) == []
    assert find('"acme-aaaaaaaaab"', rules) == []
    assert rules.allows("never-a-secret-1", is_own=True)
    assert rules.notices == ("rules.toml: [extend] is passed over: the rules it names are not read",)


def test_a_rule_sees_the_whole_of_a_long_text() -> None:
    rules = load_rules(write("[[rules]]\nid='n'\nregex='zz[0-9]{4}q'\n"))
    text = "x " * 9000 + "zz1234q " + "y " * 9000

    assert [text[found.start : found.end] for found in find(text, rules)] == ["zz1234q"]


def test_a_project_file_leads_to_rule_files() -> None:
    write(GITLEAKS, "gitleaks.toml")
    path = write(
        'headers = ["x-internal"]\nkeys = ["customer_name"]\npaths = ["t:$.a"]\nallow = ["a@example.com"]\n'
        'allow_patterns = ["^test-"]\nrule_files = ["gitleaks.toml"]\n',
        "redaction.toml",
    )

    rules = load_rules(path)

    assert (rules.headers, rules.keys, rules.paths[0].tool) == (("x-internal",), ("customer_name",), "t")
    assert find("a@example.com b@example.com", rules)[0].start == 14
    assert "acme-token" in Redactor(b"k" * 32, rules).text("acme-a1b2c3d4e5 ")


PARTLY_USABLE = """
[[rules]]
id = "acme-token"
regex = "acme-[a-z0-9]{10}"

[[rules]]
id = "acme-curl"
regex = '(?:a.*){1,5}(?:b.*)+c'

[[rules]]
id = "acme-unicode"
regex = '\\p{Greek}+'

[allowlist]
regexes = ["^acme-0+$", '\\w*\\w*\\w*!']
"""


def test_a_rule_file_with_some_unusable_rules_gives_the_others_and_names_each() -> None:
    write(PARTLY_USABLE, "gitleaks.toml")

    rules = load_rules(write('rule_files = ["gitleaks.toml"]\n', "redaction.toml"))

    assert [rule.kind for rule in rules.extra] == ["acme-token"]
    assert rules.allows("acme-0000000000", is_own=True)
    unused, more = rules.notices
    assert unused.startswith("gitleaks.toml: 2 of 3 rules are not used, so what only they find is not redacted: ")
    assert "rule 'acme-curl' (line 7: it repeats a group that repeats something itself" in unused
    assert "rule 'acme-unicode' (line 11: the class \\p{Greek} has no counterpart in Python)" in unused
    assert more.startswith("gitleaks.toml: 1 patterns that allow values are not used, so more is redacted: the file")


def test_a_project_can_insist_on_every_rule_of_its_rule_files() -> None:
    write(PARTLY_USABLE, "gitleaks.toml")
    write('rule_files = ["gitleaks.toml"]\n', "between.toml")

    with pytest.raises(InvalidFile, match="the file: the pattern"):
        load_rules(write('rule_files = ["between.toml"]\nstrict_rule_files = true\n', "redaction.toml"))


def test_a_mistake_in_a_rule_file_is_an_error_all_the_same() -> None:
    write("[[rules]]\nid = 'x'\nregx = 'a'\n", "gitleaks.toml")

    with pytest.raises(InvalidFile, match="did you mean 'regex'"):
        load_rules(write('rule_files = ["gitleaks.toml"]\n', "redaction.toml"))


def test_a_pattern_in_double_quotes_is_an_error_that_says_what_to_write() -> None:
    with pytest.raises(InvalidFile, match=r"redaction\.toml:1: is not TOML") as caught:
        load_rules(write('patterns = {customer-id = "CUST-\\d+"}\n', "redaction.toml"))

    assert caught.value.hint is not None
    assert r"single quotes: TOML reads no escapes there, as in 'CUST-\d+'" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rules]\n", "rules.toml:1: is not TOML"),
        ("keys = [\n 'a',\n 'b',\n]\nallow = 1 2\n", "rules.toml:5: is not TOML"),
        ("keys = ['a\n]\nallow = ['b']\n", "rules.toml:1: is not TOML"),
        ("keys = [\n 'a',\n", "rules.toml: is not TOML"),
        ("a = 1\nkes = ['x']\n", "rules.toml:1: unknown key 'a'"),
        ("kes = ['x']\n", "did you mean 'keys'?"),
        ("keys = 'x'\n", "`keys` is a list of texts"),
        ("keys = ['--']\n", "a name with letters"),
        ("names = 1\n", "`names` is true or false"),
        ("\npaths = ['a.b']\n", "rules.toml:2: bad JSON path"),
        ("rules = 1\n", "[[rules]]"),
        ("[[rules]]\nregex = 'a'\n", "a rule has no `id`"),
        ("[[rules]]\nid = 'x'\n", "rule 'x': expected `regex`"),
        (
            "[[rules]]\n\nid = 'x'\nregex = '(a'\n",
            "rules.toml:3: rule 'x': the pattern '(a' cannot be used: a group is not closed",
        ),
        ("[[rules]]\nid = 'x'\nregex = 'a'\nsecretGroup = 2\n", "the pattern has 0 groups"),
        ("[[rules]]\nid = 'x'\nregx = 'a'\n", "did you mean 'regex'?"),
        ("[[rules]]\nid = 'x'\nregex = '(a+)+b'\n", "repeats a group that repeats"),
        ("rule_files = ['rules.toml']\n", "includes itself"),
        ("rule_files = ['gone.toml']\n", "gone.toml: cannot be read"),
        ("allowlist = 1\n", "an allowlist is a table"),
        ("\nallow = ['sha256:abc']\n", "rules.toml:2: `allow`: a hash is `sha256:` and 64 hexadecimal digits"),
        ("patterns = ['x']\n", "`patterns` is a table of names and patterns"),
        ("[patterns]\nid = 1\n", "`patterns` is a table of names and patterns"),
        ("[patterns]\n'Customer Id' = 'x'\n", "rules.toml:2: the name of a pattern"),
        ("[patterns]\ncard = 'x'\n", "rules.toml:2: the name 'card' is taken"),
        ("\n[patterns]\nid = '(a+)+b'\n", "rules.toml:3: pattern 'id'"),
    ],
)
def test_a_wrong_file_is_told_with_its_line(text: str, message: str) -> None:
    with pytest.raises(InvalidFile, match=re.escape(message)):
        load_rules(write(text))


BUILT_IN = [
    "jane.doe@example.com",
    "4111 1111 1111 1111",
    "sk-proj-aB3dE5gH7jK9aB3dE5gH7jK9",
    'password: "hunter2-Zq9!"',
    '{"api_key": "a8f5f167f44f4964e6c998de"}',
    "https://x.example/?key=a8f5f167f44f4964e6c998de",
]


@pytest.mark.parametrize("allowance", ["allow_patterns = ['.']", "[allowlist]\nregexes = ['.*']"])
@pytest.mark.parametrize("text", BUILT_IN)
def test_no_pattern_allows_what_a_built_in_rule_finds(allowance: str, text: str) -> None:
    redactor = Redactor(b"k" * 32, load_rules(write(f"\n{allowance}\n")))

    assert redactor.text(text) == Redactor(b"k" * 32).text(text)
    assert redactor.url(text) == Redactor(b"k" * 32).url(text)


def test_a_pattern_that_covers_built_in_findings_is_named_with_its_line() -> None:
    rules = load_rules(write("keys = ['customer_name']\nallow_patterns = ['^none$', '@example']\n"))

    assert len(rules.notices) == 1
    assert rules.notices[0].startswith("rules.toml:2: the pattern '@example' in allow_patterns")
    assert "sha256:" in rules.notices[0]


def test_a_pattern_allows_what_the_project_added_itself() -> None:
    rules = load_rules(
        write("keys = ['customer_name']\nallow_patterns = ['^test-']\n[patterns]\ncust = 'CUST-[0-9]+'\n")
    )
    redactor = Redactor(b"k" * 32, rules)

    assert redactor.value({"customer_name": "test-one"}) == {"customer_name": "test-one"}
    assert redactor.value({"customer_name": "Jane"}) != {"customer_name": "Jane"}
    assert redactor.text("customer_name=test-one2") == "customer_name=test-one2"
    assert "CUST-" not in redactor.text("see CUST-123")


@pytest.mark.parametrize("text", BUILT_IN)
def test_a_value_or_its_hash_allows_itself_and_nothing_else(text: str) -> None:
    finding = Redactor(b"k" * 32).scan(text) or Redactor(b"k" * 32).scan(f"{text} ")
    value = text[finding[0].start : finding[0].end] if finding else "a8f5f167f44f4964e6c998de"

    for entry in (value, f"sha256:{sha256(value.encode()).hexdigest()}"):
        redactor = Redactor(b"k" * 32, load_rules(write(f"allow = ['{entry}']\n")))

        assert redactor.text(text) == text
        assert redactor.url(text) == text
        assert redactor.text("bob@example.org") != "bob@example.org"


def test_a_pattern_of_the_project_has_a_name() -> None:
    rules = load_rules(write("patterns = {customer-id = 'CUST-[0-9]+'}\n", "redaction.toml"))
    redactor = Redactor(b"k" * 32, rules)

    assert re.fullmatch("for <customer-id:[0-9a-f]{8}>, twice", redactor.text("for CUST-123, twice"))
    assert redactor.scan({"a": "CUST-123"})[0].kind == "customer-id"
    assert redactor.text(redactor.text("CUST-7")) == redactor.text("CUST-7")


def test_a_pattern_over_hostile_text_ends_soon() -> None:
    rules = load_rules(write("patterns = {id = '[a-z]*[A-Z]'}\n"))
    before = time.process_time()

    find("a" * 40_000, rules)

    assert time.process_time() - before < 10


@pytest.mark.parametrize(
    "pattern",
    [
        r"CUST-\d+",
        r"[A-Z]+-\d+",
        r"\d{4}-\w+",
        r"(?i)cust[-_]?\d+",
        r"a+|a+",
        r"(?:x-)?\d+b",
        ".*foo.*",
        r"\d+(?:-)?\d+",
        r"[a-z]+(?:\.[a-z]+)*@",
    ],
)
def test_a_pattern_whose_repeats_stay_apart_is_taken(pattern: str) -> None:
    assert load_rules(write(f"patterns = {{id = '{pattern}'}}\n")).extra


@pytest.mark.parametrize(
    "pattern",
    ["[a-z]*[a-z0-9]*x", ".*foo.*bar", r"\d+(?:-)?\d+b", r"(?:a*|x)a*b", r"\w{1,200}\w+!", r"\s*\w*\s*\w*x"],
)
def test_a_pattern_whose_repeats_meet_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidFile, match="can take the same text"):
        load_rules(write(f"patterns = {{id = '{pattern}'}}\n"))


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        (r"a(?i)b", "aB", "AB"),
        (r"(?:a(?i)b|c)d", "Cd", "CD"),
        (r"x\z", "x", "x\n"),
        (r"x$", "x", "x\n"),
        (r"(?m)x$", "x\n", "xy"),
        (r"[[:alnum:]_]+[[:space:]]$", "a_1 ", "- "),
        (r"(?P<n>a)(?<m>b)", "ab", "ba"),
        (r"\Qa.b\E", "a.b", "axb"),
        (r"\x{41}\x42", "AB", "ab"),
        (r"[[a]", "[", "b"),
        (r"[]a]", "]", "b"),
        (r"a{,2}", "a{,2}", "aa"),
        (r"(?s:.)b", "\nb", "b"),
        (r"(?i:a)(?-i)b", "Ab", "AB"),
        (r"\pL\d", "é1", "11"),
        (r"^\w$", "a", "é"),
    ],
)
def test_patterns_of_go_mean_the_same_here(pattern: str, yes: str, no: str) -> None:
    compiled = compile_re2(pattern)

    assert compiled.search(yes)
    assert not compiled.search(no)


@pytest.mark.parametrize(
    "pattern",
    [r"\C", r"(?U)a+", r"\p{Greek}", "a)", "[a", "(?=a)", "(a*)*", "(?:a|b+){20}", "x" * 9000, "[[:foo:]]", "a\\"],
)
def test_what_python_cannot_do_is_an_error(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        compile_re2(pattern)
