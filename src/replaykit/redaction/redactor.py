"""The redactor: replaces secrets and personal data in texts, values and bodies."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, overload

from msgspec import Struct

from replaykit.model.text_lines import words_of
from replaykit.model.values import Json, decode, encode
from replaykit.redaction.prefilter import passes_quick_look
from replaykit.redaction.rules import DEFAULT, Rules

if TYPE_CHECKING:
    from replaykit.redaction.finding import Edit
    from replaykit.redaction.names import NameFinder
    from replaykit.redaction.piecewise import Piecewise
    from replaykit.redaction.search import HitlessTexts
    from replaykit.redaction.text_edits import Known, TextEdits

LEAST_BYTES = 16 * 1024
"""A shorter text is looked at as a whole."""
_COOKIES = ("cookie", "set-cookie")
_HEADERS = frozenset(
    words_of(
        "authorization proxy-authorization cookie set-cookie x-api-key api-key x-auth-token x-amz-security-token "
        "x-goog-api-key x-csrf-token x-xsrf-token x-access-token x-vault-token private-token x-gitlab-token "
        "x-hub-signature x-hub-signature-256 cf-access-client-secret ocp-apim-subscription-key"
    )
)


class Located(Struct, frozen=True):
    """A finding with line and column from 1, and the JSON path if the text is JSON."""

    kind: str
    start: int
    end: int
    line: int
    column: int
    path: str = ""


class Redactor:
    """Replaces findings of the rules by placeholders derived from the key. Safe to share between threads.

    Caches the messages of conversations that were checked, up to a limit (`piecewise`).
    """

    def __init__(self, key: bytes, rules: Rules = DEFAULT, *, names: NameFinder | None = None) -> None:
        if len(key) < 1:
            raise ValueError("expected a key of at least one byte")
        self.key = key
        self.rules = rules
        if names is None and rules.names:
            from replaykit.redaction.names import installed_finder  # noqa: PLC0415 (few projects look for names)

            names = installed_finder()
        self.names = names
        self.has_forms = True
        """False to make placeholders like older versions."""
        self._is_usual = self.names is None and rules.are_usual
        self._piecewise: Piecewise | None = None
        self.hitless_texts: HitlessTexts | None = None
        """Long texts without a finding, if they will be checked again."""

    def text(self, text: str) -> str:
        """Return the redacted text; the same object if there is nothing to redact."""
        if self._is_plainly_clean(text.encode("utf-8", "surrogatepass"), ""):
            return text
        return self.text_edits.settled(text)

    def raw(self, raw: bytes, *, name: str = "", tool: str = "") -> bytes:
        """Redact JSON text, or any other text, in bytes."""
        if len(raw) >= LEAST_BYTES and (shown := self._by_pieces(raw, name)) is not None:
            return shown
        if self._is_plainly_clean(raw, name):
            return raw
        return self.text_edits.redacted(raw, name, tool)

    @cached_property
    def text_edits(self) -> TextEdits:
        """The closer look."""
        from replaykit.redaction.text_edits import TextEdits  # noqa: PLC0415 (slow to import; most texts need no more
        # than the quick look)

        return TextEdits(self)

    def passes(self, raw: bytes) -> bool:
        """Return True if a quick check shows that nothing would be replaced; False proves nothing."""
        return self._is_usual and passes_quick_look(raw)

    def value(self, value: Json, *, name: str = "", tool: str = "") -> Json:
        """Redact a value; `name` is its key, `tool` the tool whose paths apply."""
        if value is None or value is True or value is False:
            return value
        before = encode(value)
        after = self.raw(before, name=name, tool=tool)
        if after is before:
            return value
        return decode(after)

    def header(self, name: str, value: str) -> str:
        """Redact a header's value: all but its scheme if the name is telling; cookies keep their names."""
        if name.lower() in _COOKIES:
            return "; ".join(map(self.text_edits.cookie, value.split("; ")))
        if name.lower() in _HEADERS:
            return self.text_edits.header(name, value)
        hint = self.rules.hint_of(name)
        if hint is None:
            return self.text(value)
        return self.text_edits.header(name, value, hint)

    def tells_of_header(self, name: str) -> bool:
        """Return whether the name of a header announces a secret."""
        return name.lower() in _HEADERS or self.rules.hint_of(name) is not None

    def url(self, url: str) -> str:
        """Redact credentials in a URL, and parameters with names that are telling, some of them only in URLs."""
        head, mark, query = url.partition("?")
        if query:
            query = "&".join(map(self.text_edits.parameter, query.split("&")))
        return self.text(head + mark + query)

    @overload
    def chunks(self, chunks: list[bytes]) -> list[bytes]: ...
    @overload
    def chunks(self, chunks: list[str]) -> list[str]: ...
    def chunks(self, chunks: list[bytes] | list[str]) -> list[bytes] | list[str]:
        """Redact the chunks of a body, as one text and event by event. Their number and borders stay."""
        from replaykit.redaction.streams import redacted_chunks  # noqa: PLC0415 (it imports this module)

        return redacted_chunks(self, chunks)  # type: ignore[misc]

    def is_clean(self, content: bytes | str) -> bool:
        """Return whether nothing in the text would be replaced."""
        if isinstance(content, bytes):
            if self._is_clean_in_pieces(content):
                return True
            content = content.decode("utf-8", "surrogateescape")
        return not self.edits(content)

    def scan(self, content: bytes | str | Json) -> list[Located]:
        """Return the findings in a text, or in the JSON text of a value, with their positions."""
        if not isinstance(content, bytes | str):
            content = encode(content)
        text: str | bytes = content
        if isinstance(text, bytes):
            is_known = self.hitless_texts is not None and self.hitless_texts.has(text)
            if is_known or self._is_clean_in_pieces(text):
                return []
            text = text.decode("utf-8", "surrogateescape")
        found, line, counted = [], 1, 0
        for edit in self.edits(text):
            line += text.count("\n", counted, edit.start)
            counted = edit.start
            column = edit.start - text.rfind("\n", 0, edit.start)
            found.append(Located(edit.kind, edit.start, edit.end, line, column, edit.path))
        return found

    def edits(
        self, text: str, *, name: str = "", tool: str = "", known: Known | None = None, is_json: bool = False
    ) -> list[Edit]:
        """Return the edits of one pass over the text, in order. `known` are values found before."""
        if not known and self._is_plainly_clean(text.encode("utf-8", "surrogatepass"), name):
            return []
        return self.text_edits.edits(text, name=name, tool=tool, known=known or {}, is_json=is_json)

    def _by_pieces(self, raw: bytes, name: str) -> bytes | None:
        """Redact a long text as a whole, but faster if parts of it repeat; None if that is impossible."""
        is_local = self.names is None and not (self.rules.paths or self.rules.extra or self.rules.finders)
        if not is_local or (name and self.rules.hint_of(name) is not None):
            return None
        if self._piecewise is None:
            from replaykit.redaction.piecewise import Piecewise  # noqa: PLC0415 (only for long texts)

            self._piecewise = Piecewise(self)
        return self._piecewise.redacted(raw, name)

    def _is_clean_in_pieces(self, raw: bytes) -> bool:
        """Return True if checking the pieces finds nothing; False proves nothing."""
        return len(raw) >= LEAST_BYTES and self._by_pieces(raw, "") is raw

    def _is_plainly_clean(self, raw: bytes, name: str) -> bool:
        return (not name or self.rules.hint_of(name) is None) and self.passes(raw)
