"""Slugs: file names for tools and models, the same on every system."""

from __future__ import annotations

from replaykit.redaction.lazy_patterns import lazy

_PREFIXES = {"tool_call": "", "llm_call": "model.", "exchange": "exchange."}
_SAFE = lazy(r"[a-z0-9_][a-z0-9_.-]{0,59}(?<![.])")
_HASHED = lazy(r".*-[0-9a-f]{8}")
_RESERVED = lazy(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?")  # devices on Windows, with any suffix
_UNSAFE = lazy(r"[^a-z0-9_]+")
_UNTYPEABLE = lazy(r"[^A-Za-z0-9_.]+")
_ID_CHARS = 80


def slug(kind: str, name: str) -> str:
    """Return a file name without suffix. Valid names stay; others get a hash that keeps them apart."""
    prefix = _PREFIXES[kind]
    if _stays(name) and (prefix or not name.startswith(("model.", "exchange."))):
        return prefix + name
    import hashlib  # noqa: PLC0415 (slow to import, and few names need a hash)

    readable = _UNSAFE.sub("-", name[:200].lower()).strip("-")[:40].rstrip("-")
    digest = hashlib.sha256(f"{kind}:{name}".encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{prefix}{readable or 'name'}-{digest}"


def typeable(name: str) -> str:
    """Return the name as an id that any keyboard can type: ASCII letters, digits, `.`, `_` and `-`, at most 80."""
    import unicodedata  # noqa: PLC0415 (slow to import, and a case is made once)

    folded = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    words = _UNTYPEABLE.sub("-", folded).strip(".-")[:_ID_CHARS].rstrip(".-")
    if words:
        return words
    if name.strip():
        return slug("tool_call", name).replace("name-", "case-")
    return "case"


def _stays(name: str) -> bool:
    # A name that looks hashed gets a hash itself, so that it cannot take another's file.
    return bool(_SAFE.fullmatch(name)) and not _RESERVED.fullmatch(name) and not _HASHED.fullmatch(name)
