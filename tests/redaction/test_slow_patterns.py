"""Patterns of rule files: none that is taken runs for long, and rules as people publish them are taken."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

import pytest
from tests.matrix import matrix, sampled

from replaykit.errors import InvalidFile
from replaykit.redaction import find, load_rules
from replaykit.redaction.rules import WINDOW, Rules
from replaykit.redaction.second_check import RULES_FILE

CPU_SECONDS = 2.0
UNITS = (
    "a",
    "ab",
    "aab",
    "abc",
    " ",
    "a ",
    "1",
    "1a",
    "-",
    "=",
    "a=",
    "\r\n",
    "\r",
    "\n",
    ".",
    "x",
    '"',
    "a-",
    "\\",
    "fo",
)
TEXTS = tuple((unit * WINDOW)[: WINDOW - 1] + "?" for unit in UNITS)

HOSTILE = [
    "(a|aa)+b", r"\w*\w*\w*\w*\w*!", ".*.*.*.*=!", "(a+)+$", "(a*)*b", r"(?:\w+\s?)*x", "(a{0,16}){0,16}b",
    "(?:a?){30}a{30}", "a?" * 30 + "a" * 30, "(?:a|a)" * 20 + "b", "(?:ab)?" * 30 + "(?:ab){30}",
    ".{0,64}.{0,64}.{0,64}!",
    r"(?:\r|\r\n|\n)+x", "(?:ab|a|b)+c", "[ab]*[bc]*[cd]*x", r"\s*\w*\s*\w*x", "(.*a){20}.*b.*", "(?:a|b|ab){20}c",
    r"\w*\w{2000}!", "(x+x+)+y", "([a-z]+)*=", "(a|a?)+$", "(?:.a|a.|b)+c", "(?:(?:a|aa)b?)+c", "[a-z]*[a-z0-9]*x",
    r"\d+(?:-)?\d+x", "(?:a*|x)a*b", r"\w{1,200}\w+!", r"(?:.|\s)+x", "(?i)(?:a|[A-Z])*!", "(?:[^a]{20}.{0,200}){20}",
    r"(?:(?:a*|[ab]*)c)+d", r"(?:[\w.]+-?)+@", r"(?:\\?.)*x", ".*?.*?.*?!", "(?:a(?:b|)(?:a|)b?)+c",
]  # fmt: skip
COSTLY_BUT_BOUNDED = [
    "[a-z]*[A-Z]", ".*foo.*", r"\d+-[A-Z]+-\w+x", r"(?:\.[a-z]+)+x", r'"(?:\\.|[^"\\])*"', "(?:ab|cd)+e", "(a)*b",
    r"\w{0,64}\w{0,64}!", r"\w{0,64}?\w{0,64}?!", "(?:a|aa){6}b", "(?:a?){7}!", "(?i)(a|A)+b", "(?:ab)*(?:cd)*e",
    "(?:[a-z]a)*b",
]  # fmt: skip

LEAD_IN, TAIL = r"(?i)[\w.-]{0,50}?", r"""(?:[\x60'"\s;]|\\[nr]|$)"""
ASSIGNED = r"""(?:[ \t\w.-]{0,20})[\s'"]{0,3}(?:=|>|:{1,3}=|\|\||:|=>|\?=|,)[\x60'"\s=]{0,5}"""
PUBLISHED = {
    "beside a name": rf"{LEAD_IN}(?:acmecloud){ASSIGNED}([a-z0-9_-]{{32}}){TAIL}",
    "beside names in two cases": rf"{LEAD_IN}(?:(?-i:ACME|[Aa]cme)|(?-i:INIT|[Ii]nit)){ASSIGNED}([a-z0-9]{{24}}){TAIL}",
    "beside any telling name": (
        rf"{LEAD_IN}(?:access|auth|(?-i:[Aa]pi|API)|credential|creds|key|passw(?:or)?d|secret|token){ASSIGNED}"
        rf"([\w.=-]{{10,150}}|[a-z0-9][a-z0-9+/]{{11,}}={{0,3}}){TAIL}"
    ),
    "with sets as alternatives": (
        r"""(?i)(?:acme)(?:[0-9a-z\-_\t .]{0,20})(?:[\s|']|[\s|"]){0,3}(?:=|>|:{1,3}=|\|\|:|<=|=>|:|\?=)"""
        r"""(?:'|\"|\s|=|\x60){0,5}([a-z0-9]{32})(?:['|\"|\n|\r|\s|\x60|;]|$)"""
    ),
    "private key": (r"(?i)-----BEGIN[ A-Z0-9_-]{0,100}PRIVATE KEY(?: BLOCK)?-----[\s\S-]{64,}?KEY(?: BLOCK)?-----"),
    "prefix": r"\b((?:A3T[A-Z0-9]|AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16})\b",
    "three parts": (
        rf"\b(ey[a-zA-Z0-9]{{17,}}\.ey[a-zA-Z0-9\/\\_-]{{17,}}\.(?:[a-zA-Z0-9\/\\_-]{{10,}}={{0,2}})?){TAIL}"
    ),
    "digits and an open end": r"xoxb-[0-9]{10,13}-[0-9]{10,13}[a-zA-Z0-9-]*",
    "address": r"(?:https?://)?hooks.acme.com/(?:services|workflows)/[A-Za-z0-9+/]{43,56}",
    "groups of digits": r"https://[a-z0-9]+\.acme\.com/[a-z0-9]{8}-([a-z0-9]{4}-){3}[a-z0-9]{12}@[a-z0-9]{32}",
    "attribute": r"""(?i)<add key=\"(?:(?:ClearText)?Password)\"\s*value=\"(.{8,})\"\s*/>""",
    "either form": rf"\b((?:hvs\.[\w-]{{90,120}}|s\.(?i:[a-z0-9]{{24}}))){TAIL}",
}
ALLOWLIST = [
    r"(?i)^true|false|null$", r"^(?i:a+|b+|c+|\*+|x+|\.+)$", r"^\$(?:\d+|{\d+})$", r"^\${(?:[A-Z_]+|[a-z_]+)}$",
    r"^\{\{[ \t]*[\w ().|]+[ \t]*}}$",
]  # fmt: skip


def gitleaks_rules(pattern: str) -> Rules:
    Path("gitleaks.toml").write_text(f"[[rules]]\nid = 'x'\nregex = '''{pattern}'''\n")
    return load_rules("gitleaks.toml")


def project_rules(pattern: str) -> Rules:
    Path("redaction.toml").write_text(f"[patterns]\nxx = '''{pattern}'''\n")
    return load_rules("redaction.toml")


@contextmanager
def cpu_limit(seconds: float) -> Iterator[None]:
    """Fail once the process has used this much of the processor; Python's patterns heed signals."""

    def fail(number: int, frame: FrameType | None) -> None:
        pytest.fail(f"took more than {seconds} s")

    before = signal.signal(signal.SIGPROF, fail)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def search_all(rules: Rules) -> None:
    for text in TEXTS:
        with cpu_limit(CPU_SECONDS):
            for rule in rules.extra:
                list(rule.pattern.finditer(text))


@matrix(pattern=HOSTILE, load=[gitleaks_rules, project_rules])
def test_a_pattern_is_refused_or_soon_done(pattern: str, load: Callable[[str], Rules]) -> None:
    try:
        rules = load(pattern)
    except InvalidFile:
        return
    search_all(rules)


@sampled("pattern", COSTLY_BUT_BOUNDED, count=2)
def test_a_pattern_of_bounded_cost_is_taken_and_soon_done(pattern: str) -> None:
    search_all(gitleaks_rules(pattern))


@pytest.mark.parametrize("pattern", PUBLISHED.values(), ids=PUBLISHED.keys())
def test_rules_as_people_publish_them_are_taken_and_soon_done(pattern: str) -> None:
    rules = gitleaks_rules(pattern)
    lines = (
        ("key" * 24 + "   " + "=" * 6) * 60,
        ("-----BEGIN" + "PRIVATE KEY-----" * 5) * 60,
        ("ey" + "a" * 20 + ".") * 178,
    )

    search_all(rules)
    for text in lines:
        with cpu_limit(CPU_SECONDS):
            list(rules.extra[0].pattern.finditer(text[:WINDOW]))


@pytest.mark.parametrize(
    "pattern",
    [
        "(?:" * 90 + "a" + "b)+" * 90,
        "|".join(f"{number}x" for number in range(1600)),
        "a{4000000000}",
        "(?:a{9999}){9999}",
    ],
    ids=["nested", "alternatives", "count", "counts"],
)
def test_a_pattern_is_judged_soon(pattern: str) -> None:
    with cpu_limit(CPU_SECONDS), suppress(InvalidFile):
        gitleaks_rules(pattern)


def test_the_rules_of_the_second_check_are_taken() -> None:
    assert len(load_rules(RULES_FILE).extra) == len(tomllib.loads(RULES_FILE.read_text())["rules"])


@pytest.mark.parametrize("pattern", ALLOWLIST)
def test_allowlists_as_people_publish_them_are_taken(pattern: str) -> None:
    Path("gitleaks.toml").write_text(f"[allowlist]\nregexes = ['''{pattern}''']\n")

    assert load_rules("gitleaks.toml").allow_patterns


def test_a_pattern_allows_no_value_that_is_too_long_for_it() -> None:
    Path("redaction.toml").write_text("allow_patterns = ['^[a-z]*[a-z ]*[a-z]*$']\n")
    rules = load_rules("redaction.toml")

    assert rules.allows("a" * 400, is_own=True)
    with cpu_limit(CPU_SECONDS):
        assert not rules.allows("a" * 40_000, is_own=True)


@pytest.mark.parametrize(
    ("pattern", "reason", "instead"),
    [
        ("(a|aa)+b", "it repeats a group with alternatives that can take the same text", "write a set"),
        ("(a+)+b", "it repeats a group that repeats something itself", "repeat one of them"),
        (r"\w*\w*!", "two of its repeats can take the same text", "give them an end, as in {0,20}"),
        (r"\w{2000}!\w*\w{3000}!", "its repeats are too long", "give them an end, as in {0,64}"),
    ],
)
def test_a_refusal_names_file_line_rule_reason_and_what_to_write(pattern: str, reason: str, instead: str) -> None:
    text = f"\n[[rules]]\nid = 'acme'\nregex = '''{pattern}'''\n"
    Path("gitleaks.toml").write_text(text)

    with pytest.raises(InvalidFile) as caught:
        load_rules("gitleaks.toml")

    message = str(caught.value)
    assert message.startswith(f"gitleaks.toml:3: rule 'acme': the pattern {pattern!r} cannot be used: {reason}")
    assert instead in message


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the_acme_key = 'a1b2c3d4e5'", ["a1b2c3d4e5"]),
        ("my-acme_key=a1b2c3d4e5", []),
        ("acme=a1b2c3d4e5 my-acme_key=b1b2c3d4e5 acme=c1b2c3d4e5", ["a1b2c3d4e5", "c1b2c3d4e5"]),
        ("x" * 60 + "acme=a1b2c3d4e5", ["a1b2c3d4e5"]),
    ],
)
def test_an_allowlist_sees_what_stands_before_a_match(text: str, expected: list[str]) -> None:
    regex = rf"{LEAD_IN}(?:acme){ASSIGNED}([a-z0-9]{{10}}){TAIL}"
    Path("gitleaks.toml").write_text(
        f"[[rules]]\nid = 'acme'\nregex = '''{regex}'''\n[[rules.allowlists]]\nregexes = ['^my-']\n"
    )
    rules = load_rules("gitleaks.toml")

    assert [text[found.start : found.end] for found in find(text, rules)] == expected


def test_what_stands_before_a_match_is_a_part_of_a_value_without_a_group() -> None:
    text = "see the_acme-1234"

    found = find(text, gitleaks_rules(r"[\w.-]{0,50}?acme-[0-9]{4}"))

    assert [text[one.start : one.end] for one in found] == ["the_acme-1234"]
