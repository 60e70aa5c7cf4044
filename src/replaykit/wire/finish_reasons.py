"""Why an answer ended, in the words of each API."""

from __future__ import annotations

_LENGTH, _FILTER = "length", "filter"
_MEANINGS = {
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "model_context_window_exceeded"), _LENGTH),
    **dict.fromkeys(("content_filter", "content-filter", "safety", "refusal", "prohibited_content"), _FILTER),
    **dict.fromkeys(("recitation", "blocklist", "spii"), _FILTER),
}
"""Words that say more than that an answer, or the call of a tool, was complete: that follows from the answer."""
_WORDS = {
    "openai.chat": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.completions": {_LENGTH: "length", _FILTER: "content_filter"},
    "openai.responses": {_LENGTH: "max_output_tokens", _FILTER: "content_filter"},
    "anthropic.messages": {_LENGTH: "max_tokens", _FILTER: "refusal"},
    "gemini.generate": {_LENGTH: "MAX_TOKENS", _FILTER: "SAFETY"},
}
_OWN = {
    "anthropic.messages": ("stop_sequence", "pause_turn", "model_context_window_exceeded"),
    "gemini.generate": ("RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL"),
}
"""Words of an API that are more exact than those above."""


def finish_reason_in(api: str, reason: str | None) -> str | None:
    """Return the word that an API has for a reason; None where the reason follows from the answer itself."""
    if reason is None or reason in _OWN.get(api, ()):
        return reason
    meaning = _MEANINGS.get(reason.lower())
    if meaning is None:
        return None
    return _WORDS.get(api, {}).get(meaning, "length" if meaning == _LENGTH else None)
