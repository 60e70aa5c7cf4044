"""Models as judges, over plain HTTP: OpenAI's API, which many servers speak, and Anthropic's."""

from __future__ import annotations

import os
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException, HTTPMessage
from typing import IO, ClassVar

import orjson

from replaykit.checks.questions import Judgement, Question
from replaykit.errors import UsageError
from replaykit.judges.judge import MAX_CHARS, JudgeFailed, JudgeId, message_of, read_answer, system_of
from replaykit.model.values import Json, JsonObject
from replaykit.seam.foreign_threads import apart
from replaykit.wire.json_fields import without_nulls

MAX_ANSWER_BYTES = 4 * 1024 * 1024
MAX_TOKENS = 500
_LOCAL = ("127.0.0.1", "localhost")
_SHOWN_BYTES = 500


class ModelJudge:
    """A model behind HTTP. Its address and its key come from the environment, never from a file."""

    name: ClassVar[str]
    base_variable: ClassVar[str]
    key_variable: ClassVar[str]
    default_base: ClassVar[str]
    path: ClassVar[str]
    long_answers: ClassVar[JsonObject] = {}
    """Parameters for answers that are longer than a verdict."""

    def __init__(self, model: str, parameters: JsonObject | None = None, *, timeout_s: float = 60.0) -> None:
        if not model.strip():
            raise UsageError(f"which model of {self.name}?", hint=f"Write {self.name}:MODEL")
        used_parameters = without_nulls({**self.defaults(), **(parameters or {})})
        self.identity = JudgeId(name=self.name, model=model, parameters=used_parameters)
        self._timeout_s = timeout_s

    def judge(self, question: Question) -> Judgement:
        return read_answer(self.ask(system_of(question), message_of(question)), question)

    def ask(self, system: str, text: str) -> str:
        """Return the model's answer to a message under a system prompt."""
        if len(text) > MAX_CHARS:
            raise JudgeFailed(f"the question has {len(text):,} characters; at most {MAX_CHARS:,} are sent")
        return self._message_text(self._post(self._body(system, text)))

    def defaults(self) -> JsonObject:
        """Return the parameters to send unless others are given; null removes one."""
        raise NotImplementedError

    def _body(self, system: str, text: str) -> JsonObject:
        raise NotImplementedError

    def _headers(self, key: str) -> dict[str, str]:
        raise NotImplementedError

    def _text(self, answer: Json) -> Json:
        raise NotImplementedError

    def _message_text(self, answer: Json) -> str:
        try:
            text = self._text(answer)
        except (KeyError, IndexError, TypeError):
            text = None
        if not isinstance(text, str):
            raise JudgeFailed(f"{self.identity} answered something that is not a message: {str(answer)[:200]}")
        return text

    def _post(self, body: JsonObject) -> Json:
        base, key = self._whereto()
        headers = {"Content-Type": "application/json", **self._headers(key)}
        request = urllib.request.Request(base + self.path, orjson.dumps(body), headers)
        hint = "What was answered before is stored: ask again."
        try:
            # Outside of any run: a request to a judge is neither recorded nor served.
            with apart(), _opener().open(request, timeout=self._timeout_s) as response:
                return orjson.loads(response.read(MAX_ANSWER_BYTES))
        except urllib.error.HTTPError as error:
            with error:
                error_body = error.read(_SHOWN_BYTES).decode(errors="replace")
            raise JudgeFailed(f"{self.identity} answered {error.code} at {base}: {error_body}", hint=hint) from None
        except (OSError, HTTPException, ValueError) as error:  # ValueError: an answer that is not JSON
            raise JudgeFailed(f"{self.identity} cannot be asked at {base}: {error}", hint=hint) from None

    def _whereto(self) -> tuple[str, str]:
        """Return the address and the key from the environment. A key is sent over TLS, or stays on this machine."""
        base = os.environ.get(self.base_variable, "").rstrip("/") or self.default_base
        key = os.environ.get(self.key_variable, "").strip()
        address = urllib.parse.urlsplit(base)
        local = address.scheme == "http" and address.netloc.partition(":")[0] in _LOCAL
        if not local and (address.scheme != "https" or not address.hostname):
            raise UsageError(f"{self.base_variable} is {base!r}", hint="Give an https:// address, or one on loopback.")
        if not key and not local:
            raise UsageError(f"{self.identity} needs a key", hint=f"Set {self.key_variable}.")
        if not (key.isascii() and key.isprintable()):  # urllib's error for a bad header would show the key
            raise UsageError(f"{self.key_variable} is not a key: it contains characters that headers cannot hold")
        return base, key


class OpenAiJudge(ModelJudge):
    """A model behind OpenAI's chat completions API, or a compatible one."""

    name = "openai"
    base_variable = "OPENAI_BASE_URL"
    key_variable = "OPENAI_API_KEY"
    default_base = "https://api.openai.com/v1"
    path = "/chat/completions"

    def defaults(self) -> JsonObject:
        return {"temperature": 0, "response_format": {"type": "json_object"}}

    def _body(self, system: str, text: str) -> JsonObject:
        messages = [{"role": "system", "content": system}, {"role": "user", "content": text}]
        return {**self.identity.parameters, "model": self.identity.model, "messages": messages}

    def _headers(self, key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def _text(self, answer: Json) -> Json:
        return answer["choices"][0]["message"]["content"]


class AnthropicJudge(ModelJudge):
    """A model behind Anthropic's messages API."""

    name = "anthropic"
    base_variable = "ANTHROPIC_BASE_URL"
    key_variable = "ANTHROPIC_API_KEY"
    default_base = "https://api.anthropic.com"
    path = "/v1/messages"
    long_answers = {"max_tokens": 8_000}

    def defaults(self) -> JsonObject:
        return {"temperature": 0, "max_tokens": MAX_TOKENS}

    def _body(self, system: str, text: str) -> JsonObject:
        messages = [{"role": "user", "content": text}]
        return {**self.identity.parameters, "model": self.identity.model, "system": system, "messages": messages}

    def _headers(self, key: str) -> dict[str, str]:
        return {"x-api-key": key, "anthropic-version": "2023-06-01"}

    def _text(self, answer: Json) -> Json:
        texts = [part["text"] for part in answer["content"] if part["type"] == "text"]
        if texts:
            return "".join(texts)
        return None


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Refuses redirects: they would send the key to another host."""

    def redirect_request(
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> None:
        return None


def _opener() -> urllib.request.OpenerDirector:
    return urllib.request.build_opener(_NoRedirect)


MODELS: dict[str, type[ModelJudge]] = {judge.name: judge for judge in (OpenAiJudge, AnthropicJudge)}
"""The model judges, by the name that a configuration uses."""
