"""Rule files: a project's `redaction.toml`, and files in the format of gitleaks.

headers = ["x-internal-token"]         keys = ["customer_name"]        paths = ["get_user:$.address"]
allow = ["support@example.com"]        allow_patterns = ["^test-"]     names = true
patterns = {customer-id = 'CUST-\\d+'}
rule_files = ["gitleaks.toml"]         [[rules]] and [allowlist] as gitleaks has them
strict_rule_files = true

A pattern that Python cannot use, or not soon, is an error where it stands in the project's own file. In a file that
`rule_files` names, which somebody else wrote, it is left out and named in `Rules.notices`, unless `strict_rule_files`.
"""

from __future__ import annotations

import re
import stat
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replaykit.errors import InvalidFile, nearest
from replaykit.model.jsonpath import parse_path
from replaykit.model.nesting import NestedTooDeeply, check_value_nesting
from replaykit.redaction.forms import WITH_FORM
from replaykit.redaction.name_hints import compact
from replaykit.redaction.providers import LITERALS
from replaykit.redaction.re2 import compile_re2
from replaykit.redaction.rules import HASH, MAX_ALLOWED_CHARS, WINDOW, LeadIn, RedactionRule, Rules
from replaykit.redaction.wordlist import words_of

_LISTS = ("headers", "keys", "paths", "allow", "allow_patterns", "rule_files")
_SWITCHES = ("names", "strict_rule_files")
_GITLEAKS = ("title", "description", "minVersion", "extend", "rules", "allowlist", "allowlists")
_RULE = frozenset(
    words_of("id description regex path secretGroup entropy keywords tags allowlist allowlists skipReport required")
)
_MAX_BYTES = 4 * 1024 * 1024
_MAX_NESTING = 100
_KIND = re.compile(r"[^a-z0-9]+")
_NAME = re.compile(r"[a-z][a-z0-9-]{1,29}")
_SHA256 = re.compile(HASH + r"[0-9a-f]{64}")
_LEAD_IN = re.compile(r"(?P<flags>\(\?i\))?(?P<chars>\[(?:\\.|[^\]\\])+\])\{0,(?P<most>\d{1,3})\}\?")
_Table = dict[str, Any]


class _Unusable(InvalidFile):
    """A pattern is none, or could take Python too long."""


@dataclass(slots=True)
class _LeftOut:
    """What of a file is not used, with lines and reasons."""

    rules: list[str] = field(default_factory=list)
    allowing: list[str] = field(default_factory=list)

    def notices(self, path: Path, count: int) -> Iterator[str]:
        """Yield what somebody should know who counts on the file; `count` is that of its rules."""
        if self.rules:
            names = "; ".join(self.rules)
            share = f"{len(self.rules)} of {count} rules"
            yield f"{path}: {share} are not used, so what only they find is not redacted: {names}"
        if self.allowing:
            names = "; ".join(self.allowing)
            yield f"{path}: {len(self.allowing)} patterns that allow values are not used, so more is redacted: {names}"


def load_rules(path: Path | str) -> Rules:
    """The built-in rules and those of the file; an `InvalidFile` says what is wrong with it, and where."""
    return _read(Path(path), (), None)


def _read(path: Path, through: tuple[Path, ...], left_out: _LeftOut | None) -> Rules:
    """Read a file. Without `left_out`, a pattern that cannot be used is an error."""
    text, table = _parsed(path)
    known = {*_LISTS, *_GITLEAKS, *_SWITCHES, "patterns"}
    for key in table:
        if key not in known:
            raise _wrong(path, text, key, f"unknown key {key!r}; {nearest(key, known)}")
    lists = {key: _texts(path, text, table, key) for key in _LISTS}
    for key in _SWITCHES:
        if not isinstance(table.get(key, False), bool):
            raise _wrong(path, text, key, f"`{key}` is true or false")
    for name in (*lists["headers"], *lists["keys"]):
        if not compact(name):
            raise _wrong(path, text, name, f"expected a name with letters in it, got {name!r}")
    for value in lists["allow"]:
        if value.startswith(HASH) and not _SHA256.fullmatch(value):
            raise _wrong(path, text, value, "`allow`: a hash is `sha256:` and 64 hexadecimal digits in lower case")
    allowed = _allowlists(path, text, table, "the file", left_out)
    patterns = (*(_allowing(path, text, one, "allow_patterns") for one in lists["allow_patterns"]), *allowed[0])
    own_rules = tuple(_rules(path, text, table, allowed[1], left_out))
    left_out_notices = () if left_out is None else tuple(left_out.notices(path, len(table.get("rules", ()))))
    rules = Rules(
        headers=lists["headers"],
        keys=lists["keys"],
        paths=tuple(_path(path, text, one) for one in lists["paths"]),
        allow=frozenset(lists["allow"]),
        allow_patterns=patterns,
        extra=(*_named_patterns(path, text, table), *own_rules),
        names=table.get("names", False),
        notices=(*left_out_notices, *_notices(path, text, table, lists["allow_patterns"], patterns)),
    )
    is_strict = table.get("strict_rule_files", False) or (bool(through) and left_out is None)
    for name in lists["rule_files"]:
        other = path.parent / name
        if other.resolve() in through or other.resolve() == path.resolve():
            raise _wrong(path, text, name, f"the rule file {name!r} leads back to itself")
        rules = rules.plus(_read(other, (*through, path.resolve()), None if is_strict else _LeftOut()))
    return rules


def _parsed(path: Path) -> tuple[str, _Table]:
    data = _data(path)
    try:
        text = data.decode()
        table = tomllib.loads(text)
        check_value_nesting(table, _MAX_NESTING)
    except UnicodeDecodeError:
        raise InvalidFile("is no UTF-8 text", file=str(path)) from None
    except (RecursionError, NestedTooDeeply):
        raise InvalidFile(f"is no TOML: {NestedTooDeeply(_MAX_NESTING)}", file=str(path)) from None
    except tomllib.TOMLDecodeError as error:
        line = re.search(r"at line (\d+)", str(error))
        raise InvalidFile(f"is no TOML: {error}", file=str(path), line=int(line[1]) if line else None) from None
    return text, table


def _data(path: Path) -> bytes:
    """Return what a rule file holds: a device would never end, a pipe would wait, and a large file is none."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise InvalidFile("not a regular file", file=str(path))
        if found.st_size > _MAX_BYTES:
            raise InvalidFile(f"has {found.st_size:,} bytes; rule files have {_MAX_BYTES:,} at most", file=str(path))
        return path.read_bytes()
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise InvalidFile(f"cannot be read: {reason}", file=str(path)) from None


def _notices(
    path: Path, text: str, table: _Table, spelled: tuple[str, ...], patterns: tuple[re.Pattern[str], ...]
) -> Iterator[str]:
    """What the project should know of its file."""
    if "extend" in table:
        yield f"{path}: [extend] is passed over: the rules it names are not read"
    for number, pattern in enumerate(patterns):
        if not any(pattern.search(value) for value in _BUILT_IN_FINDINGS):
            continue
        is_listed = number < len(spelled)
        source = spelled[number] if is_listed else pattern.pattern
        line = text.count("\n", 0, max(0, text.find(source if is_listed else "regexes"))) + 1
        where = "in allow_patterns" if is_listed else "of an allowlist"
        yield (
            f"{path}:{line}: the pattern {source!r} {where} is not applied to what the built-in rules find; "
            'allow single values: allow = ["…"], or their hash "sha256:…"'
        )


_BUILT_IN_FINDINGS = (
    "jane.doe@example.com", "4111 1111 1111 1111", "4111111111111111", "DE89370400440532013000", "+49 30 12345678",
    "123-45-6789", "203.0.113.77", "AKIAIOSFODNN7EXAMPLE", "sk-proj-q8Zr4TnW1xVb7YpLs0Kd", "hunter2-Zq9!",
)  # fmt: skip
"""One of each kind, to ask a pattern whether it is meant for such."""


def _named_patterns(path: Path, text: str, table: _Table) -> Iterator[RedactionRule]:
    """The rules of `patterns`."""
    entries = table.get("patterns", {})
    if not isinstance(entries, dict) or not all(isinstance(pattern, str) for pattern in entries.values()):
        raise _wrong(path, text, "patterns", "`patterns` is a table of names and patterns: {customer-id = 'CUST-\\d+'}")
    for name, pattern in entries.items():
        if not _NAME.fullmatch(name):
            message = f"the name of a pattern is in lower case, with digits and dashes, as customer-id is; got {name!r}"
            raise _wrong(path, text, name, message)
        if name in WITH_FORM or name in LITERALS or name == "secret":
            raise _wrong(path, text, name, f"the name {name!r} is taken by a built-in rule; name the pattern otherwise")
        compiled = _pattern(path, text, pattern, f"pattern {name!r}", near=name)
        yield RedactionRule(kind=name, pattern=compiled, group=1 if compiled.groups else 0)


def _rules(
    path: Path, text: str, table: _Table, stopwords: tuple[str, ...], left_out: _LeftOut | None
) -> Iterator[RedactionRule]:
    entries = table.get("rules", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise _wrong(path, text, "rules", "`rules` is a list of tables: [[rules]]")
    for entry in entries:
        try:
            rule = _rule(path, text, entry, stopwords, left_out)
        except _Unusable as error:
            if left_out is None:
                raise
            left_out.rules.append(_short(error, f"rule {entry['id']!r}"))
        else:
            if rule is not None:
                yield rule


def _short(error: _Unusable, name: str) -> str:
    """Return the name of what is left out with its line and the reason, without what to write instead."""
    reason = error.message.partition("cannot be used: ")[2].partition(";")[0]
    return f"{name} (line {error.line}: {reason})"


def _rule(
    path: Path, text: str, entry: _Table, stopwords: tuple[str, ...], left_out: _LeftOut | None
) -> RedactionRule | None:
    name = entry.get("id")
    if not isinstance(name, str) or not name:
        raise _wrong(path, text, "[[rules]]", "a rule has no `id`")
    for key in entry:
        if key not in _RULE:
            raise _wrong(path, text, name, f"rule {name!r}: unknown key {key!r}; {nearest(key, _RULE)}")
    if "regex" not in entry and "path" in entry:
        return None  # a rule about names of files: there are none here
    group, entropy = entry.get("secretGroup", 0), entry.get("entropy", 0)
    if not isinstance(entry.get("regex"), str) or type(group) is not int or type(entropy) not in (int, float):
        raise _wrong(
            path, text, name, f"rule {name!r}: expected `regex` as text, `secretGroup` and `entropy` as numbers"
        )
    regex, lead_in = _without_lead_in(entry["regex"])
    pattern = _pattern(path, text, regex, f"rule {name!r}", near=name)
    if lead_in is not None and not pattern.groups:  # then it is a part of the value
        lead_in = None
        pattern = _pattern(path, text, entry["regex"], f"rule {name!r}", near=name)
    if not 0 <= group <= pattern.groups:
        raise _wrong(
            path, text, name, f"rule {name!r}: secretGroup is {group}, but the pattern has {pattern.groups} groups"
        )
    allowed, words = _allowlists(path, text, entry, f"rule {name!r}", left_out)
    return RedactionRule(
        kind=_KIND.sub("-", name.lower()).strip("-")[:30] or "secret",
        pattern=pattern,
        keywords=tuple(word.lower() for word in _texts(path, text, entry, "keywords")),
        group=group or (1 if pattern.groups else 0),
        entropy=float(entropy),
        allow=allowed,
        stopwords=words + stopwords,
        lead_in=lead_in,
    )


def _without_lead_in(regex: str) -> tuple[str, LeadIn | None]:
    found = _LEAD_IN.match(regex)
    if found is None:
        return regex, None
    flags = found["flags"] or ""
    most = int(found["most"])
    try:
        before = compile_re2(f"{flags}{found['chars']}{{0,{most}}}$")
    except ValueError:  # whoever compiles the whole of it says what is wrong
        return regex, None
    return flags + regex[found.end() :], LeadIn(before, most)


def _allowlists(
    path: Path, text: str, table: _Table, where: str, left_out: _LeftOut | None
) -> tuple[tuple[re.Pattern[str], ...], tuple[str, ...]]:
    """The patterns and words of `allowlist` and `allowlists`; what they say of paths and commits is passed over."""
    lists = table.get("allowlists", [])
    one = table.get("allowlist")
    entries = [*(lists if isinstance(lists, list) else [lists]), *([one] if one is not None else [])]
    patterns: list[re.Pattern[str]] = []
    words: list[str] = []
    for entry in entries:
        if not isinstance(entry, dict):
            raise _wrong(path, text, "allowlist", f"{where}: an allowlist is a table")
        if entry.get("condition", "OR").upper() == "AND" and ("paths" in entry or "commits" in entry):
            continue  # it holds for some files only: leaving it out finds more, never less
        for regex in _texts(path, text, entry, "regexes"):
            try:
                patterns.append(_allowing(path, text, regex, where))
            except _Unusable as error:
                if left_out is None:
                    raise
                left_out.allowing.append(_short(error, where))
        words += [word.lower() for word in _texts(path, text, entry, "stopwords")]
    return tuple(patterns), tuple(words)


def _texts(path: Path, text: str, table: _Table, key: str) -> tuple[str, ...]:
    value = table.get(key, [])
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise _wrong(path, text, key, f"`{key}` is a list of texts")
    return tuple(value)


def _allowing(path: Path, text: str, pattern: str, where: str) -> re.Pattern[str]:
    return _pattern(path, text, pattern, where, window=MAX_ALLOWED_CHARS)


def _pattern(
    path: Path, text: str, pattern: str, where: str, *, near: str = "", window: int = WINDOW
) -> re.Pattern[str]:
    """Compile a pattern that is to search `window` characters at once."""
    try:
        return compile_re2(pattern, window)
    except ValueError as error:
        message = f"{where}: the pattern {pattern[:80]!r} cannot be used: {error}"
        raise _wrong(path, text, near or pattern[:40], message, _Unusable) from None


def _path(path: Path, text: str, one: str) -> Any:
    try:
        return parse_path(one)
    except ValueError as error:
        raise _wrong(path, text, one, str(error)) from None


def _wrong(path: Path, text: str, near: str, message: str, kind: type[InvalidFile] = InvalidFile) -> InvalidFile:
    """An error at the first line that has `near` in it."""
    at = text.find(near)
    return kind(message, file=str(path), line=text.count("\n", 0, at) + 1 if at >= 0 else None)
