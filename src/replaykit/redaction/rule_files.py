"""Read rule files: a project's `redaction.toml`, and files in the format of gitleaks.

headers = ["x-internal-token"]         keys = ["customer_name"]        paths = ["get_user:$.address"]
allow = ["support@example.com"]        allow_patterns = ["^test-"]     names = true
patterns = {customer-id = 'CUST-\\d+'}
rule_files = ["gitleaks.toml"]         [[rules]] and [allowlist] as gitleaks has them
strict_rule_files = true

A pattern that Python cannot use, or not fast enough, is an error in the project's own file. In a third-party file named
by `rule_files`, it is skipped and listed in `Rules.notices`, unless `strict_rule_files` is set.
"""

from __future__ import annotations

import re
import stat
import tomllib
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from replaykit.errors import InvalidFile, nearest
from replaykit.model.jsonpath import JsonPath, parse_path
from replaykit.model.nesting import NestedTooDeeply, check_value_nesting
from replaykit.model.text_lines import words_of
from replaykit.redaction.forms import WITH_FORM
from replaykit.redaction.name_hints import compact
from replaykit.redaction.providers import LITERALS
from replaykit.redaction.re2 import compile_re2
from replaykit.redaction.rules import HASH, MAX_ALLOWED_CHARS, WINDOW, LeadIn, RedactionRule, Rules

_LISTS = ("headers", "keys", "paths", "allow", "allow_patterns", "rule_files")
_SWITCHES = ("names", "strict_rule_files")
_GITLEAKS = ("title", "description", "minVersion", "extend", "rules", "allowlist", "allowlists")
_RULE = frozenset(
    words_of("id description regex path secretGroup entropy keywords tags allowlist allowlists skipReport required")
)
_MAX_BYTES = 4 * 1024 * 1024
_MAX_NESTING = 100
_BACKSLASH_HINT = "Write a pattern in single quotes: TOML reads no escapes there, as in 'CUST-\\d+'."
_KIND = re.compile(r"[^a-z0-9]+")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,29}")
_SHA256 = re.compile(HASH + r"[0-9a-f]{64}")
_LEAD_IN = re.compile(r"(?P<flags>\(\?i\))?(?P<chars>\[(?:\\.|[^\]\\])+\])\{0,(?P<most>\d{1,3})\}\?")
# Closes any open text in TOML, and is a mistake anywhere else, in a column that no real mistake has.
_NEVER_AN_END = "\n" + 1000 * " " + "!\"\"\"'''"
_Table = dict[str, Any]


class _Unusable(InvalidFile):
    """Raised for a pattern that is invalid or could take Python too long."""


def load_rules(path: Path | str) -> Rules:
    """Return the built-in rules and those of the file; an `InvalidFile` says what is wrong, and where."""
    return _opened(Path(path)).rules((), is_foreign=False)


class _RuleFile:
    """One rule file, and the parts of it that are not used."""

    def __init__(self, path: Path, text: str, table: _Table) -> None:
        self.path = path
        self.text = text
        self.table = table
        self.is_foreign = False
        """True for third-party files, where unusable patterns are skipped and listed."""
        self.unused_rules: list[str] = []
        self.unused_allowances: list[str] = []

    def rules(self, through: tuple[Path, ...], *, is_foreign: bool) -> Rules:
        """Return the rules of the file and of files that it names; `through` are the files that led here."""
        table, path = self.table, self.path
        self.is_foreign = is_foreign
        known_keys = {*_LISTS, *_GITLEAKS, *_SWITCHES, "patterns"}
        for key in table:
            if key not in known_keys:
                raise self.error(key, f"unknown key {key!r}; {nearest(key, known_keys)}")
        lists = {key: self.texts(table, key) for key in _LISTS}
        for key in _SWITCHES:
            if not isinstance(table.get(key, False), bool):
                raise self.error(key, f"`{key}` is true or false")
        for name in (*lists["headers"], *lists["keys"]):
            if not compact(name):
                raise self.error(name, f"expected a name with letters in it, got {name!r}")
        for value in lists["allow"]:
            if value.startswith(HASH) and not _SHA256.fullmatch(value):
                raise self.error(value, "`allow`: a hash is `sha256:` and 64 hexadecimal digits in lower case")
        listed, stopwords = self.allowlists(table, "the file")
        spelled = lists["allow_patterns"]
        patterns = (*[self.allowance(pattern, "allow_patterns") for pattern in spelled], *listed)
        own_rules = list(self.own_rules(stopwords))
        rules = Rules(
            headers=lists["headers"],
            keys=lists["keys"],
            paths=tuple(map(self.json_path, lists["paths"])),
            allow=frozenset(lists["allow"]),
            allow_patterns=patterns,
            extra=(*self.named_patterns(), *own_rules),
            names=table.get("names", False),
            notices=(*self.unused_notices(), *self.notices(spelled, patterns)),
        )
        are_foreign = not table.get("strict_rule_files", False) and (is_foreign or not through)
        for name in lists["rule_files"]:
            other = path.parent / name
            if other.resolve() in (*through, path.resolve()):
                raise self.error(name, f"the rule file {name!r} includes itself")
            rules = rules.plus(_opened(other).rules((*through, path.resolve()), is_foreign=are_foreign))
        return rules

    def error(self, near: str, message: str, kind: type[InvalidFile] = InvalidFile) -> InvalidFile:
        """Return an error at the first line with the text `near`."""
        line = None
        if near in self.text:
            line = self.line_of(near)
        return kind(message, file=str(self.path), line=line)

    def line_of(self, near: str) -> int:
        """Return the number of the first line with the text `near`, or 1."""
        return self.text.count("\n", 0, max(0, self.text.find(near))) + 1

    def unused_notices(self) -> Iterator[str]:
        """Yield notices about parts of the file that are not used."""
        if self.unused_rules:
            share = f"{len(self.unused_rules)} of {len(self.table.get('rules', ()))} rules"
            names = "; ".join(self.unused_rules)
            yield f"{self.path}: {share} are not used, so what only they find is not redacted: {names}"
        if self.unused_allowances:
            count, names = len(self.unused_allowances), "; ".join(self.unused_allowances)
            yield f"{self.path}: {count} patterns that allow values are not used, so more is redacted: {names}"

    def notices(self, spelled: tuple[str, ...], patterns: tuple[re.Pattern[str], ...]) -> Iterator[str]:
        """Yield notices about settings without the expected effect."""
        if "extend" in self.table:
            yield f"{self.path}: [extend] is passed over: the rules it names are not read"
        for number, pattern in enumerate(patterns):
            if not any(map(pattern.search, _BUILT_IN_FINDINGS)):
                continue
            source, near, where = pattern.pattern, "regexes", "of an allowlist"
            if number < len(spelled):
                source = near = spelled[number]
                where = "in allow_patterns"
            yield (
                f"{self.path}:{self.line_of(near)}: the pattern {source!r} {where} is not applied to what the built-in "
                'rules find; allow single values: allow = ["…"], or their hash "sha256:…"'
            )

    def named_patterns(self) -> Iterator[RedactionRule]:
        """Yield the rules of `patterns`."""
        entries = self.table.get("patterns", {})
        if not isinstance(entries, dict) or not _are_all(str, entries.values()):
            raise self.error("patterns", "`patterns` is a table of names and patterns: {customer-id = 'CUST-\\d+'}")
        for name, pattern in entries.items():
            if not _NAME.fullmatch(name):
                raise self.error(
                    name,
                    f"the name of a pattern is in lower case, with digits and dashes, as customer-id is; got {name!r}",
                )
            if name in WITH_FORM or name in LITERALS or name == "secret":
                raise self.error(name, f"the name {name!r} is taken by a built-in rule; name the pattern otherwise")
            compiled = self.compiled(pattern, f"pattern {name!r}", near=name)
            yield RedactionRule(kind=name, pattern=compiled, group=min(1, compiled.groups))

    def own_rules(self, stopwords: tuple[str, ...]) -> Iterator[RedactionRule]:
        """Yield the rules in the format of gitleaks; `stopwords` are those of the whole file."""
        entries = self.table.get("rules", [])
        if not isinstance(entries, list) or not _are_all(dict, entries):
            raise self.error("rules", "`rules` is a list of tables: [[rules]]")
        for entry in entries:
            try:
                rule = self.rule(entry, stopwords)
            except _Unusable as error:
                if not self.is_foreign:
                    raise
                self.unused_rules.append(_short(error, f"rule {entry['id']!r}"))
            else:
                if rule is not None:
                    yield rule

    def rule(self, entry: _Table, stopwords: tuple[str, ...]) -> RedactionRule | None:
        """Return one rule; None for a rule about file names, which do not exist here."""
        name = entry.get("id")
        if not isinstance(name, str) or not name:
            raise self.error("[[rules]]", "a rule has no `id`")
        where = f"rule {name!r}"
        for key in entry:
            if key not in _RULE:
                raise self.error(name, f"{where}: unknown key {key!r}; {nearest(key, _RULE)}")
        if "regex" not in entry and "path" in entry:
            return None
        regex, group, entropy = entry.get("regex"), entry.get("secretGroup", 0), entry.get("entropy", 0)
        if not isinstance(regex, str) or type(group) is not int or type(entropy) not in (int, float):
            raise self.error(name, f"{where}: expected `regex` as text, `secretGroup` and `entropy` as numbers")
        short, lead_in = _without_lead_in(regex)
        pattern = self.compiled(short, where, near=name)
        if lead_in is not None and not pattern.groups:  # the lead-in is a part of the value
            lead_in = None
            pattern = self.compiled(regex, where, near=name)
        if not 0 <= group <= pattern.groups:
            raise self.error(name, f"{where}: secretGroup is {group}, but the pattern has {pattern.groups} groups")
        allowed, words = self.allowlists(entry, where)
        return RedactionRule(
            kind=_KIND.sub("-", name.lower()).strip("-")[:30] or "secret",
            pattern=pattern,
            keywords=_lowered(self.texts(entry, "keywords")),
            group=group or min(1, pattern.groups),
            entropy=float(entropy),
            allow=allowed,
            stopwords=words + stopwords,
            lead_in=lead_in,
        )

    def allowlists(self, table: _Table, where: str) -> tuple[tuple[re.Pattern[str], ...], tuple[str, ...]]:
        """Return the patterns and words of `allowlist` and `allowlists`; paths and commits are ignored."""
        entries = table.get("allowlists", [])
        if not isinstance(entries, list):
            entries = [entries]
        if table.get("allowlist") is not None:
            entries = [*entries, table["allowlist"]]
        patterns: list[re.Pattern[str]] = []
        words: tuple[str, ...] = ()
        for entry in entries:
            if not isinstance(entry, dict):
                raise self.error("allowlist", f"{where}: an allowlist is a table")
            if entry.get("condition", "OR").upper() == "AND" and ("paths" in entry or "commits" in entry):
                continue  # limited to some files: skipping it finds more, never less
            for regex in self.texts(entry, "regexes"):
                try:
                    patterns.append(self.allowance(regex, where))
                except _Unusable as error:
                    if not self.is_foreign:
                        raise
                    self.unused_allowances.append(_short(error, where))
            words += _lowered(self.texts(entry, "stopwords"))
        return tuple(patterns), words

    def texts(self, table: _Table, key: str) -> tuple[str, ...]:
        """Return the list of texts under a key."""
        value = table.get(key, [])
        if not isinstance(value, list) or not _are_all(str, value) or not all(value):
            raise self.error(key, f"`{key}` is a list of texts")
        return tuple(value)

    def allowance(self, pattern: str, where: str) -> re.Pattern[str]:
        """Compile a pattern that allows values."""
        return self.compiled(pattern, where, window=MAX_ALLOWED_CHARS)

    def compiled(self, pattern: str, where: str, *, near: str = "", window: int = WINDOW) -> re.Pattern[str]:
        """Compile a pattern for searches of `window` characters."""
        try:
            return compile_re2(pattern, window)
        except ValueError as error:
            message = f"{where}: the pattern {pattern[:80]!r} cannot be used: {error}"
            raise self.error(near or pattern[:40], message, _Unusable) from error

    def json_path(self, path: str) -> JsonPath:
        """Return the JSON path in a text."""
        try:
            return parse_path(path)
        except ValueError as error:
            raise self.error(path, str(error)) from None


def _are_all(kind: type, values: Iterable[object]) -> bool:
    return all(isinstance(value, kind) for value in values)


def _lowered(words: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(map(str.lower, words))


def _opened(path: Path) -> _RuleFile:
    data = _data(path)
    try:
        text = data.decode()
        table = tomllib.loads(text)
        check_value_nesting(table, _MAX_NESTING)
    except UnicodeDecodeError:
        raise InvalidFile("is not UTF-8 text", file=str(path)) from None
    except (RecursionError, NestedTooDeeply):
        raise InvalidFile(f"is not TOML: {NestedTooDeeply(_MAX_NESTING)}", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        hint = _BACKSLASH_HINT if "\\" in str(error) else None
        raise InvalidFile(f"is not TOML: {error}", file=str(path), line=_error_line(text), hint=hint) from None
    return _RuleFile(path, text, table)


def _error_line(text: str) -> int | None:
    """Return the line where the parser gave up; None if at the end. Before Python 3.14, errors have no line
    attribute."""
    lines = text.split("\n")
    error = _toml_error(text)

    def reaches_mistake(count: int) -> bool:
        return _toml_error("\n".join(lines[:count]) + _NEVER_AN_END) == error

    if not reaches_mistake(len(lines)):
        return None
    # The parser stops at the mistake, so each prefix of the text that includes it gives the same error.
    return bisect_left(range(len(lines)), True, key=reaches_mistake)


def _toml_error(text: str) -> str:
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return str(error)
    return ""


def _data(path: Path) -> bytes:
    """Read a rule file. Refuse devices, which never end, pipes, which block, and files too large for rules."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InvalidFile("not a regular file", file=str(path))
        if status.st_size > _MAX_BYTES:
            raise InvalidFile(f"has {status.st_size:,} bytes; rule files have {_MAX_BYTES:,} at most", file=str(path))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(f"cannot be read: {reason}", file=str(path)) from None


def _short(error: _Unusable, name: str) -> str:
    """Return the name, line and reason of what is skipped, without the advice."""
    reason, _, _advice = str(error.__cause__).partition(";")
    return f"{name} (line {error.line}: {reason})"


def _without_lead_in(regex: str) -> tuple[str, LeadIn | None]:
    match = _LEAD_IN.match(regex)
    if match is None:
        return regex, None
    flags = match["flags"] or ""
    most = int(match["most"])
    try:
        before = compile_re2(f"{flags}{match['chars']}{{0,{most}}}$")
    except ValueError:  # compiling the whole pattern reports the error
        return regex, None
    return flags + regex[match.end() :], LeadIn(before, most)


# One value of each kind, to check whether a pattern is meant for such.
_BUILT_IN_FINDINGS = (
    "jane.doe@example.com", "4111 1111 1111 1111", "4111111111111111", "DE89370400440532013000", "+49 30 12345678",
    "123-45-6789", "203.0.113.77", "AKIAIOSFODNN7EXAMPLE", "sk-proj-q8Zr4TnW1xVb7YpLs0Kd", "hunter2-Zq9!",
)  # fmt: skip
