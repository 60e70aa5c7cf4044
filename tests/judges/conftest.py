"""What the tests of judges share: a run to judge, and a model that answers on loopback."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from replaykit.judges.judge import Answer, JudgeId, Judgement, Question
from replaykit.model.run import RunStatus, TraceRun
from replaykit.model.values import raw

RUBRIC = "The answer is polite"


def polite_agent(answer: str) -> None:
    """Write the agent `sh polite.sh`, which answers this; a Python would take longer to start than all else here."""
    told = json.dumps({"status": "success", "final_output": answer})
    Path("polite.sh").write_text(f"""printf %s '{told}' > "$REPLAYKIT_OUTPUT_PATH"\n""")


class FakeModel:
    """A server that speaks like a model's API: it answers what it is told to, and keeps what it was asked."""

    def __init__(self) -> None:
        self.status = 200
        self.said = '{"verdict": "pass", "reason": "it is"}'
        self.body: bytes | None = None
        self.headers: dict[str, str] = {}
        self.asked: list[dict[str, Any]] = []
        self.seen: list[tuple[str, dict[str, str]]] = []
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                fake.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
                fake.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
                body = fake.body if fake.body is not None else fake._answer(self.path)
                self.send_response(fake.status)
                for name, value in fake.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                """Tests are quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def _answer(self, path: str) -> bytes:
        if path.endswith("/messages"):
            return json.dumps({"content": [{"type": "text", "text": self.said}]}).encode()
        return json.dumps({"choices": [{"message": {"role": "assistant", "content": self.said}}]}).encode()


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeModel]:
    fake = FakeModel()
    monkeypatch.setenv("OPENAI_BASE_URL", f"{fake.url}/v1")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", fake.url)
    monkeypatch.setenv("OPENAI_API_KEY", "key-of-openai")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "key-of-anthropic")
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    yield fake
    fake.close()


@pytest.fixture
def make_run() -> Callable[..., TraceRun]:
    def make(output: Any = "Thank you for asking.", given: Any = "Why?") -> TraceRun:
        return TraceRun(id="r", status=RunStatus.SUCCESS, input_json=raw(given), output_json=raw(output))

    return make


@pytest.fixture
def question() -> Question:
    return Question(rubric=RUBRIC, input_json=raw("Why?"), output_json=raw("Thank you for asking."))


class Scripted:
    """A judge that says what it is told to, and counts."""

    def __init__(self, answer: Answer = Answer.PASS, model: str = "m") -> None:
        self.identity = JudgeId(name="openai", model=model)
        self.answer = answer
        self.asked: list[Question] = []

    def judge(self, question: Question) -> Judgement:
        self.asked.append(question)
        return Judgement(self.answer, "because")


@pytest.fixture
def scripted() -> type[Scripted]:
    return Scripted
