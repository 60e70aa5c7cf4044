"""Objects of the standard library and of HTTP libraries, as data and back.

Each is of one exact class, and rebuilt by a function here: data only chooses among these functions. A library is used
if the program has loaded it, and is never imported.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from datetime import datetime
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from replaykit.model.arrays import is_array, is_number
from replaykit.model.values import Json
from replaykit.seam.classes import loaded_module
from replaykit.seam.http.cleaning import clean_headers, clean_url, text_pairs

Taken = tuple[str, str, Json]
"""Name and module of the class, and the content."""
_FACTORIES: dict[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str, bool, tuple)}
_FACTORIES["None"] = None


def is_numpy(value: object) -> bool:
    """True for a NumPy scalar or array."""
    return is_number(value) or is_array(value)


def taken(value: Any) -> Taken | None:
    """Return the object as data; None for an unknown one."""
    kind = type(value)
    take = _TAKE.get(kind)
    if take is not None:
        content = take(value)
        return None if content is None else (kind.__name__, kind.__module__, content)
    if isinstance(value, Path) and kind in (type(Path()), Path):
        return "Path", "pathlib", str(value)
    for module, name in _LOADED_CLASSES:
        if kind.__name__ == name and (loaded_module(module) or {}).get(name) is kind:
            content = _LOADED_CLASSES[module, name][0](value)
            return None if content is None else (name, module, content)
    return None


def build_library_object(module: str, name: str, content: Any) -> Any:
    """Rebuild an object from `taken`; raises an error for invalid content, and KeyError for an unknown class."""
    if (module, name) in _LOADED_CLASSES:
        return _LOADED_CLASSES[module, name][1](content)
    return _MAKE[module, name](content)


def is_known(module: object, name: object) -> bool:
    """True for a class whose objects can be rebuilt."""
    return (module, name) in _MAKE or (module, name) in _LOADED_CLASSES


def error_content(error: BaseException) -> dict[str, Any] | None:
    """Return the content of an exception that hides its details from Python; None for any other."""
    if type(error) is not _validation_error():
        return None
    found: Any = error
    return {"title": found.title, "errors": found.errors(include_url=False)}


def made_error(kind: type, attributes: Any) -> BaseException | None:
    """Rebuild an exception from `error_content`; None if it is no such exception."""
    if kind is not _validation_error() or not isinstance(attributes, dict):
        return None
    lines = [_validation_line(kind, line) for line in attributes["errors"]]
    rebuilt: BaseException = _validation_error().from_exception_data(attributes["title"], lines)
    return rebuilt


def _validation_error() -> Any:
    return (loaded_module("pydantic_core._pydantic_core") or {}).get("ValidationError")


def _validation_line(kind: Any, line: dict[str, Any]) -> dict[str, Any]:
    details: dict[str, Any] = {key: line[key] for key in ("loc", "input", "ctx") if key in line}
    try:
        kind.from_exception_data("", [{"type": line["type"], **details}])
    except KeyError:  # a type that the program has invented
        custom = (loaded_module("pydantic_core._pydantic_core") or {})["PydanticCustomError"]
        return {"type": custom(line["type"], line["msg"], line.get("ctx")), **details}
    return {"type": line["type"], **details}


def _default_dict(value: defaultdict[Any, Any]) -> Json:
    factory = value.default_factory
    name = getattr(factory, "__name__", "None")
    return [name, dict(value)] if _FACTORIES.get(name, value) is factory else None


def _made_counter(content: dict[Any, Any]) -> Counter[Any]:
    rebuilt: Counter[Any] = Counter()
    dict.update(rebuilt, content)
    return rebuilt


def _made_namespace(content: dict[str, Any]) -> SimpleNamespace:
    rebuilt = SimpleNamespace()
    rebuilt.__dict__.update(content)
    return rebuilt


def _moment(value: datetime) -> Json:
    """Return a date and time that its text does not determine: in the repeated hour, or in a named time zone."""
    kind = (loaded_module("zoneinfo") or {}).get("ZoneInfo")
    zone: Any = value.tzinfo
    key = zone.key if kind is not None and type(zone) is kind else None
    return [value.isoformat(), key, value.fold]


def _made_moment(content: list[Any]) -> datetime:
    text, zone, fold = content
    moment = datetime.fromisoformat(text).replace(fold=fold)
    if zone is None:
        return moment
    from zoneinfo import ZoneInfo  # noqa: PLC0415 (slow to import; few results have a time zone)

    return moment.replace(tzinfo=ZoneInfo(zone))


_TAKE: dict[type, Callable[[Any], Json]] = {
    datetime: _moment,
    OrderedDict: dict,
    Counter: dict,
    defaultdict: _default_dict,
    deque: lambda v: [list(v), v.maxlen],
    range: lambda v: [v.start, v.stop, v.step],
    Fraction: lambda v: [v.numerator, v.denominator],
    SimpleNamespace: lambda v: dict(v.__dict__),
}
_MAKE: dict[tuple[Any, Any], Callable[[Any], Any]] = {
    ("collections", "OrderedDict"): OrderedDict,
    ("collections", "Counter"): _made_counter,
    ("collections", "defaultdict"): lambda c: defaultdict(_FACTORIES[c[0]], c[1]),
    ("collections", "deque"): lambda c: deque(c[0], c[1]),
    ("builtins", "range"): lambda c: range(*c),
    ("fractions", "Fraction"): lambda c: Fraction(*c),
    ("types", "SimpleNamespace"): _made_namespace,
    ("pathlib", "Path"): Path,
    ("datetime", "datetime"): _made_moment,
}


def _pairs(headers: Iterable[tuple[Any, Any]]) -> list[list[str]]:
    return list(map(list, clean_headers(text_pairs(headers))))


def _with_history(value: Any, content_of: Callable[[Any], dict[str, Any] | None]) -> Json:
    """Return the response with those that led to it.

    Each of these has a history of its own, of the same responses. It is written as indexes into the list: written out,
    30 redirects would be a billion responses.
    """
    content = content_of(value)
    if content is None:
        return None
    responses = list(value.history)
    places = {id(response): place for place, response in enumerate(responses)}
    history: list[Json] = []
    for response in responses:
        earlier = content_of(response)
        if earlier is not None:
            earlier["history"] = [places[id(item)] for item in response.history if id(item) in places]
        history.append(earlier)
    return content | {"history": history}


def _made_history(history: list[Any], make: Callable[[dict[str, Any]], Any]) -> list[Any]:
    """Rebuild the responses that led to another one; older recordings have them written out."""
    is_made = [not isinstance(item, dict) for item in history]
    responses = [item if ready else make(item | {"history": []}) for item, ready in zip(history, is_made, strict=True)]
    for item, response, ready in zip(history, responses, is_made, strict=True):
        if not ready:
            response.history = [responses[place] for place in item["history"]]
    return responses


def _requests_response(value: Any) -> Json:
    return _with_history(value, _requests_content)


def _requests_content(value: Any) -> dict[str, Any] | None:
    if value._content is False:
        return None  # nobody has read it, and reading it here would take it from its reader
    return {
        "status_code": value.status_code,
        "reason": value.reason,
        "url": clean_url(str(value.url)),
        "headers": _pairs(value.headers.items()),
        "encoding": value.encoding,
        "content": value._content,
        "elapsed": value.elapsed,
        "request": value.request,
    }


def _requests_request(value: Any) -> Json:
    return {
        "method": value.method,
        "url": None if value.url is None else clean_url(value.url),
        "headers": _pairs((value.headers or {}).items()),
        "body": value.body if isinstance(value.body, str | bytes) else None,
    }


def _made_requests_response(content: dict[str, Any]) -> Any:
    rebuilt = _loaded("requests.models", "Response")()
    rebuilt.headers = _loaded("requests.structures", "CaseInsensitiveDict")(content["headers"])
    rebuilt._content, rebuilt._content_consumed = content["content"], True
    for name in ("status_code", "reason", "url", "encoding", "elapsed", "request"):
        setattr(rebuilt, name, content[name])
    rebuilt.history = _made_history(content["history"], _made_requests_response)
    return rebuilt


def _made_requests_request(content: dict[str, Any]) -> Any:
    rebuilt = _loaded("requests.models", "PreparedRequest")()
    rebuilt.headers = _loaded("requests.structures", "CaseInsensitiveDict")(content["headers"])
    rebuilt.method, rebuilt.url, rebuilt.body = content["method"], content["url"], content["body"]
    return rebuilt


def _httpx_response(value: Any) -> Json:
    return _with_history(value, _httpx_content)


def _httpx_content(value: Any) -> dict[str, Any] | None:
    if not hasattr(value, "_content"):
        return None  # as above
    return {
        "status_code": value.status_code,
        "headers": _pairs(value.headers.multi_items()),
        "content": value._content,
        "encoding": value.encoding,
        "request": value._request,
        "extensions": {key: item for key, item in value.extensions.items() if isinstance(item, bytes)},
    }


def _httpx_request(value: Any) -> Json:
    return {
        "method": value.method,
        "url": clean_url(str(value.url)),
        "headers": _pairs(value.headers.multi_items()),
        "content": getattr(value, "_content", b""),
    }


def _made_httpx_response(content: dict[str, Any]) -> Any:
    history = _made_history(content["history"], _made_httpx_response)
    rebuilt = _loaded("httpx", "Response")(
        content["status_code"], request=content["request"], history=history, extensions=content["extensions"]
    )
    rebuilt.headers = _loaded("httpx", "Headers")(list(map(tuple, content["headers"])))
    rebuilt._content = content["content"]  # decoded when it was recorded, whatever the headers say
    if content["encoding"] is not None:
        rebuilt._encoding = content["encoding"]
    return rebuilt


def _made_httpx_request(content: dict[str, Any]) -> Any:
    rebuilt = _loaded("httpx", "Request")(content["method"], content["url"], content=content["content"])
    rebuilt.headers = _loaded("httpx", "Headers")(list(map(tuple, content["headers"])))
    return rebuilt


def _completed_process(value: Any) -> Json:
    return [value.args, value.returncode, value.stdout, value.stderr]


def _made_completed_process(content: list[Any]) -> Any:
    return _loaded("subprocess", "CompletedProcess")(*content)


def _loaded(module: str, name: str) -> Any:
    found = (loaded_module(module) or {}).get(name)
    if found is None:
        raise LookupError(f"{module} is not loaded")
    return found


_LOADED_CLASSES: dict[tuple[Any, Any], tuple[Callable[[Any], Json], Callable[[Any], Any]]] = {
    ("requests.models", "Response"): (_requests_response, _made_requests_response),
    ("requests.models", "PreparedRequest"): (_requests_request, _made_requests_request),
    ("httpx", "Response"): (_httpx_response, _made_httpx_response),
    ("httpx", "Request"): (_httpx_request, _made_httpx_request),
    ("subprocess", "CompletedProcess"): (_completed_process, _made_completed_process),
}
