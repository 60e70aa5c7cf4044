"""Admissions: detect whether an answer admits that something failed, in twelve languages.

An admission is a phrase with a verb ("could not be reached", "ein Fehler ist aufgetreten"), not a single word: an
answer about an error margin admits nothing. Negated phrases ("without any error") and mere possibilities ("if the
payment failed") do not count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from replaykit.model.events import ToolCall
from replaykit.model.values import canonical
from replaykit.redaction.lazy_patterns import lazy

_ERROR = r"(?:errors?|exceptions?|failures?|timeouts?|outages?|problems?|issues?|difficult(?:y|ies)|glitch(?:es)?)"
_KIND = (
    r"(?:an?|the|some|this|these|several|multiple|repeated|technical|internal|unexpected|system|server|network|service"
    r"|following|\w+ing|\w+ed)"
)
_PAST = (
    r"(?:access|reach|retriev|obtain|fetch|load|connect|complet|process|finish|find|found|confirm|verif|determin|plac|sent"
    r"|send|sav|updat|creat|book|cancel|deliver|perform|execut|read|open|look|lookup|submit|charg|refund|resolv|locat|done|made)"
)
_PHRASES = {
    "English": (
        r"(?:could not|couldn't|couldnt)\b",
        r"\b(?:i|we)(?: (?:am|are|was|were))?(?: \w+)? (?:cannot|can't|can not|unable|not able)\b",
        rf"\b(?:cannot|can't|can not) (?:currently |be |presently |at this time )*{_PAST}\w*",
        r"(?<!you )(?<!you are )(?<!you're )\b(?:unable|not able) to\b",
        r"\b(?:has|have|had|was|were|is|are|it|that|which|search|request|call|payment|tool|service|attempts?|lookup|step)"
        r" (?:also |again |repeatedly |just |unfortunately )?failed\b",
        r"\b(?:the|this|that|your|my|our|its) (?:\w+ ){1,3}failed\b",
        r"\bfailed (?:to|with|because|due|while|when|again|twice|repeatedly)\b|\bfailed[.!]?\s*$",
        rf"\bapologi[sz]e for (?:{_KIND} ){{0,2}}{_ERROR}\b|\bfailing to\b",
        rf"\b(?:encountered|ran into|hit|got|received|returned|returns|threw|reported|reports|experienced|met|gave)"
        rf" (?:{_KIND} ){{0,3}}{_ERROR}\b",
        rf"\b(?:due to|because of|owing to|there (?:was|is|has been|were|seems to be)) (?:{_KIND} ){{1,3}}{_ERROR}\b",
        rf"\b(?:{_KIND} ){{1,3}}{_ERROR} (?:occurred|happened|came up|arose|has occurred|prevented|while)\b",
        r"\b(?:is|are|was|were|be|been|currently|temporarily|still) (?:\w+ )?(?:unavailable|unreachable"
        r"|inaccessible|down|offline)\b",
        r"\b(?:unavailable|inaccessible|unreachable)\b",
        r"\b(?:is|are|was|were) not (?:currently |yet )?(?:available|accessible|reachable|responding"
        r"|working|successful)\b",
        r"\b(?:not available|no longer available)\b",
        r"\btimed out\b|\ba time-?out\b|\btimeout (?:error|while|when|occurred)\b",
        r"\b(?:did not|didn't|does not|doesn't|is not|isn't|not) (?:respond|return|work|succeed|complete"
        r"|go through|load|receive)\w*",
        r"\b(?:no|without(?: a)?) (?:response|answer|reply|data|results?|information) (?:from|was|were|is"
        r"|are|could|came|available)\b",
        r"\b(?:was|were|been|is|are|got|has) (?:declined|rejected|denied|refused|unsuccessful|interrupted|aborted)\b",
        r"\b(?:went|gone|going) wrong\b|\bunsuccessful\b|\btry(?:ing)? again\b|\bretry later\b",
        r"\b(?:do not|don't|does not|doesn't) have (?:the |any |enough |this |that |access|current|live"
        r"|up-to-date|sufficient)",
        r"\b(?:has|have|had) not (?:yet )?(?:been|gone)\b",
        r"\bnot (?:been )?(?:possible|successful)\b",
    ),
    "German": (
        r"\b(?:konnte|konnten|kann|können)\b[^.!?\n]{0,80}\b(?:nicht|keine?n?)\b",
        r"\bnicht (?:verfügbar|erreichbar|möglich|gelungen|geklappt|funktioniert|erfolgreich|abrufbar"
        r"|gefunden|geantwortet)\b",
        r"\b(?:fehlgeschlagen|gescheitert|schiefgegangen|schiefgelaufen|misslungen|abgelehnt)\b|\bschlug(?:en)?\b[^.\n]{0,60}\bfehl\b",
        r"\b\w*fehlers?\b[^.!?\n]{0,60}\b(?:aufgetreten|auf|erhalten|gemeldet|zurück\w*)\b",
        r"\b(?:wegen|aufgrund|durch)\b[^.\n]{0,30}(?:fehler|störung|ausfall|problem)\w*"
        r"|\bes gab\b(?! kein)[^.\n]{0,30}(?:fehler|problem|störung)",
        r"\b(?:zeitüberschreitung|ausgefallen)\b|\bkeine (?:antwort|daten|verbindung)\b|\b(?:versuchen sie"
        r"|versuche|versuch) es\b",
    ),
    "French": (
        r"\bn'(?:ai|a|avons|ont|as|avez)\b[^.\n]{0,20}\bpas\b[^.\n]{0,20}\b(?:pu|réussi|abouti|répondu|fonctionné|trouvé|été)\b",
        r"\bne? (?:peux|peut|pouvons|peuvent|parvien\w*|répond\w*|fonctionne\w*)\b[^.\n]{0,20}\bpas\b"
        r"|\bimpossible (?:de|d')",
        r"\b(?:une|l'|d'une|cette|des)\s?erreurs?\b[^.\n]{0,60}\b(?:produite|survenue|renvoyée|rencontrée|empêch\w*)\b",
        r"\b(?:rencontré|renvoyé|retourné|reçu|à cause d'|en raison d')\s?(?:une |l')?(?:erreur|panne|échec)",
        r"\b(?:a|ont|avait) échoué\b|\bun échec\b|\bindisponibles?\b|\bpas disponibles?\b"
        r"|\binaccessibles?\b|\bhors service\b",
        r"\bdélai (?:d'attente )?(?:dépassé|expiré)\b|\b(?:expiré|refusée?s?)\b|\bréessaye[rz]\b"
        r"|\baucune (?:réponse|donnée)\b",
    ),
    "Spanish": (
        r"\bno (?:pude|pudo|pudimos|pudieron|puedo|podemos|puede|se pudo|se pudieron|se puede|he podido"
        r"|ha podido|hemos podido"
        r"|fue posible|es posible|ha sido posible|logr[éoó]\w*|respond\w*|ha respondido|funcion[óa]\w*"
        r"|está disponible|disponible)\b",
        r"\b(?:falló|fallaron|ha fallado|han fallado|fracasó|rechazad[oa]s?)\b",
        r"\b(?:ocurrió|hubo|se produjo|devolvió|recib\w+|encontr\w+|debido a|a causa de|por)\s+(?:un |el "
        r"|una )?(?:error|fallo|problema técnico)",
        r"\bindisponible\b|\btiempo de espera\b|\binténtel[oa]\b|\bint[eé]nta\w* (?:de nuevo|más tarde)"
        r"|\bintente de nuevo\b|\bsin respuesta\b",
    ),
    "Portuguese": (
        r"\bnão (?:consegui\w*|foi possível|é possível|pude|pôde|posso|podemos|pode|está disponível"
        r"|respondeu|funcionou|foram?|há dados|obtive)\b",
        r"\b(?:falhou|falharam|recusad[oa]s?|indisponível|indisponíveis)\b",
        r"\b(?:ocorreu|houve|retornou|devolveu|recebi|encontrei|devido a)\s+(?:um |uma |o |a )?(?:erro"
        r"|falha|problema técnico)",
        r"\btempo (?:limite|esgotado|excedido)\b|\btente (?:novamente|de novo|mais tarde)\b|\bsem resposta\b",
    ),
    "Italian": (
        r"\bnon (?:sono riuscit\w|è stat[oa] possibile|è possibile|è riuscit\w|riesco|ho potuto"
        r"|abbiamo potuto|posso|possiamo|è disponibile"
        r"|sono disponibili|disponibil\w|risponde|ha risposto|ha funzionato|funziona|è andat\w)\b",
        r"\b(?:è|sono) fallit\w\b|\bindisponibil\w\b|\brifiutat\w\b|\btempo scaduto\b|\briprova\w*\b"
        r"|\bnessuna risposta\b",
        r"\b(?:verificat\w|restituit\w|ricevut\w|a causa d\w+|riscontrat\w)\s+(?:un |l'|un')?\s?(?:errore"
        r"|guasto|problema)",
    ),
    "Dutch": (
        r"\b(?:kon|konden|kan|kunnen)\b[^.!?\n]{0,80}\b(?:niet|geen)\b",
        r"\bniet (?:beschikbaar|gelukt|bereikbaar|mogelijk|gevonden|gereageerd|doorgegaan|kunnen)\b",
        r"\b(?:mislukt|geweigerd|afgewezen|misgegaan)\b|\btime-out\b|\bstoring\b"
        r"|\bprobeer\b[^.\n]{0,20}\bopnieuw\b|\bgeen (?:antwoord|reactie)\b",
        r"\bfout\b[^.\n]{0,40}\b(?:opgetreden|gekregen|gaf|terug)|\b(?:trad|is|was|gaf"
        r"|door) (?:er )?een (?:\w+ )?fout\b",
    ),
    "Polish": (
        r"\bnie (?:udało|mogłem|mogłam|mogę|możemy|można|jest możliwe|jest dostępn\w+|są dostępn\w+"
        r"|odpowiad\w+|odpowiedział\w*|powiodł\w+|działa\w*|zostało|został)\b",
        r"\bniedostępn\w+\b|\bprzekrocz\w+ (?:limit )?czas\w*|\bodrzucon\w+|\bspróbuj\w* (?:ponownie"
        r"|później)|\bawari\w+|\bbrak odpowiedzi\b",
        r"\b(?:wystąpił|zwrócił\w*|otrzymał\w*|z powodu|napotkał\w*)\s+(?:\w+ )?bł[ąę]d\w*",
    ),
    "Russian": (
        r"\bне (?:удалось|могу|можем|смог\w*|получилось|удаётся|удается|отвеча\w+|ответил\w*|работа\w+"
        r"|доступ\w+|выполнен\w*|прош[ёе]л|прошла)",
        r"\b(?:произошла|возникла|вернул\w* |получил\w* |из-за )\s*(?:\w+ )?(?:ошибк\w+|сбо\w+)"
        r"|\bнедоступ\w+|\bпроизош[её]л сбой\b",
        r"\bистекло время\b|\bтайм-?аут\b|\bпревышено время\b|\bотклон[её]н\w*|\bпопробуйте\b",
    ),
    "Japanese": (
        r"できませんでした|できません(?!か)|できず|できない状態|できておりません|失敗し|失敗に終わ|エラーが(?:発生|出|返|起き)|エラーのため|エラーにより|エラーとなり"
        r"|利用できない|利用不可|タイムアウト|応答がありません|応答しません|応答がな|つながりません|障害(?:が|により|のため)|拒否され"
        r"|再度お試し|もう一度お試し|後ほどお試し|得られません|得られず|見つかりません|確認できて(?:い)?ません",
    ),
    "Korean": (
        r"(?:할|될|볼|알|갈|을|를) 수 (?:가 )?없|지 못했|지 못하|지 못해|못 ?했습니다|실패했|실패하"
        r"|오류가 (?:발생|나)|불가능합니다|다시 시도해|되지 않(?:았|습)|거부되|거절되",
    ),
    "Chinese": (
        r"无法|無法|未能|失败|失敗|不可用|超时|逾時|(?:出现|發生|发生|遇到|返回|出現).{0,8}(?:错误|故障|问题|異常|异常|錯誤|問題)"
        r"|没有(?:响应|返回|找到|成功|回应)|沒有(?:響應|返回|找到|成功|回應)|未(?:成功|找到|返回|获得|獲得)|不能(?:获取|访问|完成|提供|查询)"
        r"|(?:再试|重试|再試|重試)|被拒绝|被拒絕|暂时不可|暫時不",
    ),
}
_STOP_WORDS = {
    "English": "the a at is are was to of and you your i it that in for with on not be have this there can",
    "German": "der die das und ist nicht ich sie es ein eine zu mit für auf den dem wurde im leider",
    "French": "le la les des est et vous je pas une un du pour dans que votre ce au avec sur",
    "Spanish": "el la los las es y que de no se un una para con su en por lo del está",
    "Portuguese": "o a os as é e que de não se um uma para com seu em por foi do da",
    "Italian": "il la gli è e che di non si un una per con suo in del sono ho alla",
    "Dutch": "de het een is en niet ik u je van te met voor op dat er naar aan zijn heb",
    "Polish": "nie jest się na i w z do to że został jak dla po od są",
}
_UNREAD_STOP_WORDS = (
    "och är att jag inte det som på för till du av ett har med den så kunde",  # Swedish
    "og er at jeg ikke det som på for til du af et har med den så kunne av å",  # Danish, Norwegian
    "ve bir bu için ile değil çok olarak daha var yok ne mi de da lütfen olduğu üzgünüm",  # Turkish
    "và là của không có cho được trong này tôi bạn với các một đã xin rất",  # Vietnamese
    "dan yang tidak di ini untuk dengan anda saya ke dari akan sudah bisa adalah maaf",  # Indonesian, Malay
    "a je se na že není jsem pro to v s do by nebo ale vaše který bohužel",  # Czech, Slovak
    "și nu este la de în pe cu o un că pentru sunt din care am",  # Romanian
    "a az és nem hogy egy van meg is de csak ez volt már sajnos",  # Hungarian
    "ja on ei se että en ole oli mutta kun hän joka tämä valitettavasti",  # Finnish
)
_UNREAD_SCRIPTS = lazy(r"[\u0370-\u03ff\u0530-\u1cff\u1f00-\u1fffіїєґўј]")
_WORD = lazy(r"[^\W\d_]+")
_PHRASE = lazy("|".join(f"(?:{phrase})" for phrases in _PHRASES.values() for phrase in phrases), re.IGNORECASE)
_POSSIBILITY = lazy(
    r"\b(?:if|whether|in case|unless|should (?:the|your|it|this|any)|in the event|whenever|wenn|falls"
    r"|sollte[nst]*|si(?! è)|s'il|au cas où|en caso|se (?:o|a|os|as|il|lo|la|você|houver)|caso|als|indien"
    r"|jeśli|jeżeli|если|when(?=\s+you))\b"
    r"|場合|もし|如果|若",
    re.IGNORECASE,
)
_NEGATION = lazy(
    r"\b(?:no|not|never|without|any|zero|free of|n't|ohne|keine?[nrm]?|nie|sans|aucune?|jamais|sin"
    r"|ning[uú]n\w*|sem|nenhuma?|senza|nessun\w*|zonder|geen|bez|żadn\w+|без|нет)\W+(?:\w+\W+){0,2}$",
    re.IGNORECASE,
)
_CLAUSE_CHARS = 80
# Of a longer answer, only the beginning and the end are read: that is where failures are admitted.
_LOOKED_AT_CHARS = 10_000
_CLAUSE_END = lazy(r"[.!?;:\n。！？；]|,\s+(?:but|however|aber|mais|pero|mas|ma|maar|ale|но)\b")


def admission(text: str) -> str | None:
    """Return the words with which an answer admits a failure, or None."""
    if len(text) > 2 * _LOOKED_AT_CHARS:
        text = f"{text[:_LOOKED_AT_CHARS]}\n{text[-_LOOKED_AT_CHARS:]}"
    plain = text.replace("\u2019", "'")
    for found in _PHRASE.finditer(plain):
        before = _clause_before(plain, found.start())
        if _POSSIBILITY.search(before) or _NEGATION.search(before):
            continue
        return found[0].strip()
    return None


def is_readable(text: str) -> bool:
    """Return whether the text is in a language with known admissions, judged by its script and its stop words."""
    head = text[:_LOOKED_AT_CHARS].casefold()
    words = _WORD.findall(head)
    unread = len(_UNREAD_SCRIPTS.findall(head))
    if unread * 2 > sum(map(len, words)):
        return False
    return _most_common(words, _STOP_WORDS.values()) >= _most_common(words, _UNREAD_STOP_WORDS)


def _most_common(words: list[str], languages: Iterable[str]) -> int:
    """Return how many of the words are stop words of the language that has most of them."""
    most = 0
    for stop_words in languages:
        most = max(most, sum(map(set(stop_words.split()).__contains__, words)))
    return most


def _clause_before(text: str, end: int) -> str:
    """Return the part of the clause before this position."""
    before = text[max(0, end - _CLAUSE_CHARS) : end]
    start = 0
    for found in _CLAUSE_END.finditer(before):
        start = found.end()
    return before[start:]


_REPEATED_WORDS = 2
_STEM_CHARS = 5
_CONTENT_WORD = lazy(r"[^\W\d_]{4,}")
_CODE = lazy(r"(?<![\w.])[45]\d\d(?![\w.]*\d)")
_SENTENCE = lazy(r"[^.!?\n]+")
_REGRET = lazy(
    r"\b(?:unfortunately|i'?m afraid|i am afraid|sorry|regrettably|leider|bedaure\w*|malheureusement|désolée?|lo siento"
    r"|lamentablemente|desafortunadamente|desculp\w+|infelizmente|lamento|purtroppo|mi dispiace|spiacente|helaas"
    r"|niestety|przykro|сожалени\w+|извините)\b|申し訳|残念|抱歉|遗憾|遺憾|죄송|아쉽게도|유감",
    re.IGNORECASE,
)
_DENIAL = lazy(
    r"\b(?:no|not|never|none|nobody|neither|nor|nothing|already|only|missing|wrong|because|since|instead|however|but|until"
    r"|nicht|keine?[nrms]?|pas|aucune?|ningun\w*|não|nenhum\w*|non|nessun\w*|niet|geen|nie|нет|не)\b|n't\b|n\u2019t\b",
    re.IGNORECASE,
)

_HANDED_OVER = lazy(
    r"\bescalat(?:ed|ing)\b|\b(?:forwarded|transferr(?:ed|ing)|handed|handing|passed|passing) (?:you|this|your|it)\b"
    r"|\b(?:will|shall|'ll) (?:call|contact|get back|follow up|reach out)\b",
    re.IGNORECASE,
)


def failure_hint(answer: str, call: ToolCall, reason: str) -> str | None:
    """Return what in the answer may hint at the call's failure, or None.

    Hints are a language that is not covered, an expression of regret, a handover, a repetition of the reason, or a
    denial of part of it. Words that the call's arguments share with the reason do not count.
    """
    if not is_readable(answer):
        return "something in a language that is not read"
    if found := _REGRET.search(answer) or _HANDED_OVER.search(answer):
        return found[0]
    words = _stems(reason) - _stems(canonical(call.arguments).decode())
    if len(words & _stems(answer)) >= _REPEATED_WORDS or _codes(reason) & _codes(answer):
        return reason
    for sentence in _SENTENCE.findall(answer):
        if _DENIAL.search(sentence) and words & _stems(sentence):
            return str(sentence.strip())
    return None


def _codes(text: str) -> set[str]:
    """Return three-digit numbers, such as HTTP statuses: naming one means speaking of the failure."""
    return set(_CODE.findall(text))


def _stems(text: str) -> set[str]:
    return {word[:_STEM_CHARS] for word in _CONTENT_WORD.findall(text.lower())}
