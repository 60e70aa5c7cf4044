"""Failures: decide whether a call failed, by its exception or by the content of its result.

Tools report failures in many forms: an exception, an error object, `success: false`, a status code, an MCP result with
`isError`, a traceback, or a sentence in any language.
"""

from __future__ import annotations

import re

import msgspec

from replaykit.model.events import Call
from replaykit.model.nesting import decode_json
from replaykit.model.text_lines import one_line, words_of
from replaykit.model.values import Json, JsonObject
from replaykit.redaction.lazy_patterns import lazy

_ERROR_KEYS = words_of("error errors is_error isError exception error_message errorMessage __type")
_SUCCESS_KEYS = ["success", "ok", "succeeded", "successful", "isSuccess", "is_success"]
_STATUS_KEYS = ["status", "status_code", "statusCode", "http_status", "httpStatus", "http_code", "code"]
_STATE_KEYS = ("status", "state", "outcome", "result")
_FAILED_STATES = frozenset(words_of("error errored failed failure fail timeout timed_out exception"))
_NO_ERRORS = frozenset({"none", "null", "no error", "no errors", "ok", "0", "false", "n/a", "success"})
_MESSAGE_KEYS = words_of("message detail details reason content description title msg text")
# Keys beside `status: failed` if the tool reports its own failure, not the state of a job that it looked up.
_ABOUT_FAILURE = frozenset(_MESSAGE_KEYS).union(
    words_of("code error_code errorCode timestamp time request_id requestId trace_id traceId"),
    words_of("tool name hint retry_after retryAfter retryable type path instance data id"),
)
_WRAPPERS = frozenset(words_of("result response output data value body content structuredContent"))
_MAX_WRAPPING = 4
_MAX_JSON_CHARS = 200_000  # longer texts are not parsed: error messages are short
_REASON_CHARS = 200


def call_failed(call: Call) -> str | None:
    """Return in one line why the call counts as failed; None if it does not.

    A call failed if it raised, or if its result reports a failure: see `result_failure`.
    """
    if call.error is not None:
        return one_line(str(call.error), _REASON_CHARS)
    if not call.result_json:
        return None
    return result_failure(call.result)


def result_failure(result: Json) -> str | None:
    """Return in one line why a tool's result reports a failure; None if it reports none."""
    reason = _reason_of(result, 0)
    if reason is None:
        return None
    return one_line(reason, _REASON_CHARS)


def _reason_of(result: Json, depth: int) -> str | None:
    if isinstance(result, str):
        return _text_reason(result, depth)
    if isinstance(result, dict):
        return _object_reason(result, depth)
    if isinstance(result, list) and (text := _content_text(result)) is not None:
        return _text_reason(text, depth)
    return None


def _text_reason(text: str, depth: int) -> str | None:
    stripped = text.strip()
    if stripped[:1] == "{" and len(stripped) <= _MAX_JSON_CHARS and depth < _MAX_WRAPPING:
        try:
            value = decode_json(stripped)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return text_failure(text)
        if isinstance(value, dict):
            return _reason_of(value, depth + 1)
        return None
    return text_failure(text)


def _object_reason(result: JsonObject, depth: int) -> str | None:
    # From the strongest sign to the weakest: `status: failed` may describe a job that the tool looked up.
    for find in (_error_member, _success_member, _status_code, _failed_state):
        reason = find(result)
        if reason is not None:
            return reason
    if depth < _MAX_WRAPPING and len(result) == 1:
        ((key, inner),) = result.items()
        if key in _WRAPPERS:
            return _reason_of(inner, depth + 1)
    return None


def _error_member(result: JsonObject) -> str | None:
    for key in _ERROR_KEYS:
        value = result.get(key)
        if not value or (isinstance(value, str) and value.strip().lower() in _NO_ERRORS):
            continue
        if key == "__type" and not (isinstance(value, str) and value.endswith(("Exception", "Error"))):
            continue
        return _spelled(value, result)
    return None


def _success_member(result: JsonObject) -> str | None:
    for key in _SUCCESS_KEYS:
        value = result.get(key)
        if value is False or (isinstance(value, str) and value.strip().lower() == "false"):
            return f"{key} is false{_message_of(result)}"
    return None


def _status_code(result: JsonObject) -> str | None:
    for key in _STATUS_KEYS:
        code = result.get(key)
        if isinstance(code, str) and key not in ("status", "code") and code.isascii() and code.isdigit():
            code = int(code[:4])
        # The upper bound excludes product codes and postcodes.
        if type(code) is int and 400 <= code <= 599:
            return f"{key} {code}{_message_of(result)}"
    return None


def _failed_state(result: JsonObject) -> str | None:
    for key in _STATE_KEYS:
        state = result.get(key)
        if not isinstance(state, str) or state.strip().lower().replace(" ", "_") not in _FAILED_STATES:
            continue
        if all(other == key or other in _ABOUT_FAILURE or result[other] is None for other in result):
            return f"{key} {state}{_message_of(result)}"
    return None


def _content_text(blocks: list[Json]) -> str | None:
    """Return the text of a list of content blocks of MCP or a model API; None for any other list."""
    texts = []
    for block in blocks:
        if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
            return None
        texts.append(block["text"])
    if texts:
        return "\n".join(texts)
    return None


def _spelled(error: Json, result: JsonObject) -> str:
    if isinstance(error, str):
        return error
    if isinstance(error, dict):
        return str(error.get("message") or error.get("type") or error)
    if error is True:
        return f"is_error{_message_of(result)}"
    return str(error)


def _message_of(result: JsonObject) -> str:
    for key in (*_MESSAGE_KEYS, *_ERROR_KEYS):
        message = result.get(key)
        if isinstance(message, list):
            message = _content_text(message) or message
        if message and message is not True:
            return f": {message}"
    return ""


SHORT_CHARS = 300
"""Texts up to this length may mention a failure anywhere; of longer ones, only the beginning counts."""
_HEAD_CHARS = 120
_TAIL_CHARS = 4_000

_STARTS_LIKE_AN_ERROR = lazy(
    r"\s*(?:Error\b|ERROR\b|error:|Exception\b|Traceback\b|[A-Za-z_.]*(?:Error|Exception):|Fatal:|fatal:|FATAL\b)"
)
_REASON_PHRASES = (
    r"Bad Request|Unauthorized|Payment Required|Forbidden|Not Found|Method Not Allowed|Not Acceptable|Request Timeout"
    r"|Conflict|Gone|Payload Too Large|Unprocessable \w+|Too Many Requests|Internal Server Error|Not Implemented"
    r"|Bad Gateway|Service (?:Temporarily )?Unavailable|Gateway Time-?out|Client Error|Server Error"
)
_HTTP_STATUS = lazy(
    rf"\bHTTP(?:/\d(?:\.\d)?)?(?:\s+(?:error|status|code|response))*[\s:]+[45]\d\d\b"
    rf"|\b(?:status(?: code)?|response code|error code|statuscode)(?:\s+(?:of|is|was))?[\s:=]+[45]\d\d\b"
    rf"|\b[45]\d\d\s+(?:{_REASON_PHRASES})\b",
    re.IGNORECASE,
)
_TRACEBACKS = lazy(
    r"^Traceback \(most recent call last\):"
    r"|^Exception in thread \""
    r"|^panic: "
    r"|^thread '[^'\n]*' (?:\(\d+\) )?panicked at"
    r"|^\s+at [\w.$<>]+ ?\([^()\n]*:\d+(?::\d+)?\)$",
    re.MULTILINE,
)
_EXCEPTION_LINE = lazy(
    r"(?:[A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit|Warning|Failure)\b|\s+at |panic: |goroutine )"
)

# How failed tools begin their message, by language. Each must be at the start of the text.
_OPENINGS = (
    # English
    r"(?:failed|failure|unable|not able) (?:to|while|when|during|in)\b",
    r"(?:(?:i|we|the \w+|this \w+|it) )?(?:could ?n[o']t|can(?:not|'t| not)|was unable to"
    r"|were unable to) (?!be happier)\w+",
    r"(?:an? )?(?:\w+ ){0,2}(?:error|exception) (?:occurred|happened|while|when|during|in|executing"
    r"|fetching|calling)\b",
    r"(?:request|call|operation|query|connection|command|execution|tool|task|action)(?: \w+)? (?:failed|timed out)\b",
    r"(?:connection|request|gateway|read|operation) ?(?:timed out|timeout|refused|reset|aborted)\b",
    r"(?:access|permission) (?:is )?denied\b",
    r"(?:timeout|timed out)\b",
    r"something went wrong\b",
    r"(?:service|server|system|api|resource|data)(?: is)?(?: currently| temporarily)? (?:unavailable"
    r"|unreachable|down)\b",
    r"invalid (?:argument|parameter|request|input|api key|token|credentials)\b",
    r"(?:the )?(?:rate limit|quota)(?: has been| was)? (?:exceeded|reached)\b",
    # German
    r"(?:ein |der |die )?(?:\w+)?fehler(?::| beim| bei| aufgetreten| ist aufgetreten)",
    r"(?:konnte|konnten|kann|können) (?:\S+ ){0,8}nicht\b",
    r"(?:\S+ ){1,5}(?:konnte|konnten|kann) (?:\S+ ){0,5}nicht\b",
    r"(?:\S+ ){0,4}(?:fehlgeschlagen|gescheitert|abgebrochen)\b",
    r"zeitüberschreitung|zugriff verweigert|verbindung (?:abgelehnt|unterbrochen)",
    # French
    r"(?:une )?erreur(?: \w+)?(?: ?:| lors| pendant| de | s'est| est| interne)",
    r"(?:échec|impossible) (?:de|d'|du|lors)",
    r"(?:la |le |l')?\w+ (?:a échoué|n'a pas pu)",
    r"délai (?:d'attente )?(?:dépassé|expiré)|accès (?:refusé|interdit)|service indisponible",
    # Spanish
    r"(?:un )?error(?: \w+)?(?: ?:| al | en | de | interno)",
    r"(?:no se (?:pudo|ha podido|pudieron)|no (?:pude|fue posible|es posible)|imposible|fallo al|falló)\b",
    r"(?:la |el )?\w+ (?:ha fallado|falló)\b|tiempo de espera (?:agotado|excedido)|acceso denegado"
    r"|servicio no disponible",
    # Portuguese
    r"(?:ocorreu um )?erro(?: \w+)?(?: ?:| ao | na | no | de | interno)|ocorreu um erro",
    r"(?:falha (?:ao|na|no)|não (?:foi possível|consegui|pôde)|impossível)\b",
    r"tempo (?:limite )?(?:esgotado|excedido)|acesso negado|serviço indisponível",
    # Italian
    r"(?:si è verificato un )?errore(?: \w+)?(?: ?:| durante| nel| di | interno)|si è verificato un errore",
    r"(?:impossibile|non è stato possibile|non riuscit[oa]|operazione fallita|richiesta fallita)\b",
    r"tempo (?:scaduto|esaurito)|accesso negato|servizio non disponibile",
    # Dutch
    r"(?:er is een )?fout(?: \w+)?(?: ?:| bij| tijdens| opgetreden)|er is een fout",
    r"(?:kon|konden|kan) (?:\S+ ){0,6}niet\b|(?:\S+ ){0,3}(?:mislukt|geweigerd)\b",
    r"time-?out|toegang geweigerd|dienst niet beschikbaar",
    # Polish
    r"(?:wystąpił )?błąd(?: \w+)?(?: ?:| podczas| przy| serwera)|wystąpił błąd",
    r"nie (?:udało się|można|powiodło się)\b|przekroczono (?:limit )?czasu?|odmowa dostępu|brak dostępu",
    # Russian
    r"(?:произошла )?ошибка(?: \w+)?(?: ?:| при| во время| сервера)|произошла ошибка",
    r"не удалось|невозможно|сбой\b|превышено время|время ожидания|доступ запрещ[её]н|сервис недоступен",
)
_OPENING = lazy(r"[\W_]*(?:" + "|".join(f"(?:{opening})" for opening in _OPENINGS) + ")", re.IGNORECASE)
# Japanese and Chinese put the verb at the end, so a short text is searched as a whole.
_CJK = lazy(
    r"エラーが(?:発生|起き|出)|エラー[:：]|失敗しました|に失敗|できませんでした|タイムアウト(?:しました|です|$)|接続できません"
    r"|アクセスが?拒否|見つかりませんでした|利用できません"
    r"|^\W*(?:错误|錯誤|失败|失敗|无法|無法|异常|異常|未能)|(?:请求|請求|操作|连接|連接|获取|獲取|调用|調用|查询|查詢|加载|載入|执行|執行)\S{0,6}(?:失败|失敗|超时|逾時|出错)"
    r"|发生(?:了)?错误|發生(?:了)?錯誤|服务(?:暂时)?不可用|拒绝访问|访问被拒绝"
)


def text_failure(text: str) -> str | None:
    """Return the text, or its decisive line, if it reports that a tool failed; else None."""
    if _STARTS_LIKE_AN_ERROR.match(text):
        return text
    head = text.lstrip()[:_HEAD_CHARS]
    is_short = len(text) <= SHORT_CHARS
    plain_head = head.replace("\u2019", "'")
    if is_short and (_OPENING.match(plain_head) or _CJK.search(text)):
        return text
    if _HTTP_STATUS.search(text if is_short else head):
        return text
    return _traceback(text)


def is_traceback(text: str) -> bool:
    """Return whether a text begins with a traceback."""
    return _TRACEBACKS.match(text.lstrip()) is not None


def _traceback(text: str) -> str | None:
    """Return the last line of a traceback at the end of the text: a log with one in the middle is a normal result."""
    tail = text[-_TAIL_CHARS:].rstrip()
    if not _TRACEBACKS.search(tail):
        return None
    last_line = tail.rpartition("\n")[2]
    if not _EXCEPTION_LINE.match(last_line):
        return None
    if last_line.startswith((" ", "\t", "goroutine")):
        return next((line for line in tail.splitlines() if line.strip()), last_line)
    return last_line
