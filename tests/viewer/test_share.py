"""Shared files: whole, closed to requests, private, without secrets, and with all hostile data as data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import stat
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from tests.viewer.serving import documents_of
from tests.viewer.test_server import PAYLOADS

import replaykit as rk
from replaykit.cli import run as run_command
from replaykit.errors import UsageError
from replaykit.model.events import State, ToolCall
from replaykit.model.run import RunHeader, RunStatus, TraceRun
from replaykit.model.values import raw
from replaykit.viewer import share
from replaykit.viewer.documents import Documents
from replaykit.viewer.modules import STATIC, joined_script
from replaykit.viewer.share import write_shared_file
from replaykit.viewer.target import ViewTarget

SECRET = "ghp_16C7e42F292c6912E7710c838347Ae178B4a"
OUT = Path("shared.html")


class SharedFile(HTMLParser):
    """What a browser finds in a shared file."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.contents: dict[str, list[str]] = {}
        self.blocks: list[tuple[dict[str, str | None], Any]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if not data.strip():
            return
        tag, attributes = self.tags[-1]
        if "data-path" in attributes:
            self.blocks.append((attributes, json.loads(data)))
        elif tag in ("script", "style"):
            self.contents.setdefault(tag, []).append(data)

    @property
    def policy(self) -> dict[str, str]:
        (content,) = (attrs["content"] for _, attrs in self.tags if "http-equiv" in attrs)
        assert content is not None
        return dict(part.split(" ", 1) for part in content.split("; "))

    def at(self, path: str) -> list[Any]:
        return [document for attributes, document in self.blocks if attributes["data-path"] == path]


def write(documents: Documents, *addresses: str) -> SharedFile:
    write_shared_file(OUT, documents, ViewTarget(addresses).shared_pages(documents))
    return SharedFile(OUT.read_text(encoding="utf-8"))


def sha256(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture
def documents(store: rk.Store) -> Documents:
    calls = tuple(
        ToolCall(seq=seq, name="work", arguments_json=raw({"n": seq}), result_json=raw("done")) for seq in range(150)
    )
    states = State(seq=150, state_json=raw({"n": 1})), State(seq=152, state_json=raw({"n": 2}))
    last = ToolCall(seq=151, name="work")
    header = {"started_at": 1.0, "status": RunStatus.SUCCESS}
    store.add(TraceRun(id="run", events=(*calls, states[0], last, states[1]), input_json=raw("go"), **header))
    store.add(TraceRun(id="other", events=calls[:3], **header))
    return documents_of(store)


def test_a_file_holds_every_document_of_a_run(documents: Documents) -> None:
    shared = write(documents, "run")

    (home,) = shared.at("home")
    assert home["opens"] == "#/run/run"
    assert shared.at("run/run")[0]["totals"]["events"] == 153
    rows = [row for batch in shared.at("run/run/rows") for row in batch.get("rows", ())]
    assert [row[0] for row in rows] == list(range(153))
    assert "page" in shared.at("run/run/rows")[-1]
    events = [page for block in shared.at("run/run/event") for page in block]
    assert [page["row"][0] for page in events] == list(range(153))
    assert shared.at("run/run/family")[0]["run"]["id"] == "run"
    assert shared.at("run/run/ungrounded") == [[]]


def test_blocks_name_the_events_that_they_are_about(documents: Documents) -> None:
    shared = write(documents, "run")

    def spans(path: str) -> list[tuple[str | None, str | None]]:
        return [(block["data-from"], block["data-to"]) for block, _ in shared.blocks if block["data-path"] == path]

    assert spans("run/run/event") == [("0", "63"), ("64", "127"), ("128", "152")]
    assert spans("run/run/state") == [("150", "151"), ("152", "152")]
    assert [page["state"] for page in shared.at("run/run/state")] == [{"n": 1}, {"n": 2}]


def test_a_file_forbids_all_requests_and_all_scripts_but_its_own(documents: Documents) -> None:
    shared = write(documents, "run")

    (script,), (style,) = shared.contents["script"], shared.contents["style"]
    assert shared.policy["default-src"] == "'none'"
    assert shared.policy["script-src"] == sha256(script)
    assert shared.policy["style-src"] == sha256(style)
    assert "connect-src" not in shared.policy
    addresses = {attrs.get("src", attrs.get("href")) for _, attrs in shared.tags} - {None}
    assert addresses <= {"data:,"}, "the icon"
    assert shared.tags.index(("head", {})) + 1 == [name for name, _ in shared.tags].index("meta"), "before all else"


def test_hostile_values_cannot_end_their_block(store: rk.Store) -> None:
    calls = tuple(
        ToolCall(seq=seq, name=text[:1000], arguments_json=raw({text: text}), result_json=raw(text))
        for seq, text in enumerate(PAYLOADS)
    )
    store.add(TraceRun(id="</script>", name=PAYLOADS[0], events=calls, input_json=raw(PAYLOADS[4])))

    shared = write(documents_of(store), "</script>")

    assert len(re.findall(r"</script", shared.text)) == len(shared.blocks) + 1
    assert "<script>alert" not in shared.text
    assert "<!--" not in shared.text
    (events,) = shared.at("run/%3C%2Fscript%3E/event")
    assert [page["arguments"] for page in events] == [{text: text} for text in PAYLOADS]


def test_two_runs_a_comparison(documents: Documents) -> None:
    shared = write(documents, "run", "other")

    assert shared.at("home")[0]["opens"] == "#/compare/run/other"
    assert shared.at("compare/run/other")[0]["comparison"]["identical"] is False
    assert shared.at("run/run")
    assert shared.at("run/other")


def test_a_secret_is_refused_by_its_place(own_directory: Path) -> None:
    with rk.Store.open("plain.db", redact=False) as store:
        calls = tuple(ToolCall(seq=seq, name="work") for seq in range(100))
        leaky = ToolCall(seq=100, name="login", arguments_json=raw({"header": f"Authorization: token {SECRET}"}))
        store.add(TraceRun(id="leaky", events=(*calls, leaky)))
        OUT.write_text("before")

        with pytest.raises(UsageError) as caught:
            write(documents_of(store), "leaky")

    assert "run/leaky" in str(caught.value)
    assert SECRET not in str(caught.value)
    assert OUT.read_text() == "before"
    assert [file.name for file in own_directory.iterdir() if "shared" in file.name] == [OUT.name]


def test_a_file_is_private(documents: Documents) -> None:
    write(documents, "run")

    assert stat.S_IMODE(OUT.stat().st_mode) == 0o600


def test_a_run_that_is_recorded_is_shared_as_far_as_it_is(store: rk.Store) -> None:
    writer = store.begin(RunHeader(id="live"))
    writer.append(ToolCall(seq=0, name="work"))

    shared = write(documents_of(store), "live")

    assert shared.at("run/live")[0]["is_running"]
    assert len(shared.at("run/live/event")[0]) == 1
    writer.finish(RunHeader(id="live", event_count=1))


def test_too_many_events_are_refused(documents: Documents, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share, "MAX_EVENTS", 100)

    with pytest.raises(UsageError, match="has 153 events, and a shared file holds up to 100"):
        write(documents, "run")


def test_progress_is_reported(documents: Documents) -> None:
    seen: list[tuple[int, int]] = []

    pages = ViewTarget(("run",)).shared_pages(documents)
    write_shared_file(OUT, documents, pages, lambda done, total: seen.append((done, total)))

    assert seen == [(64, 153), (128, 153), (153, 153)]


def test_nothing_to_share_is_a_wrong_call(documents: Documents) -> None:
    with pytest.raises(UsageError, match="--share needs a TARGET"):
        write(documents)


@pytest.mark.parametrize(
    ("modules", "problem"),
    [
        (
            {"main.js": 'import { a } from "./other.js";\n', "other.js": 'import { b } from "./main.js";\n'},
            "each other",
        ),
        ({"main.js": 'import * as all from "./other.js";\n'}, "cannot be joined"),
        ({"main.js": "export default 7;\n"}, "cannot be joined"),
        ({"main.js": 'const text = "</script>";\n'}, "would end"),
    ],
)
def test_modules_that_cannot_be_joined_are_an_error(tmp_path: Path, modules: dict[str, str], problem: str) -> None:
    for name, source in modules.items():
        (tmp_path / name).write_text(source)

    with pytest.raises(ValueError, match=problem):
        joined_script(tmp_path)


def test_joined_modules_keep_their_names_apart(tmp_path: Path) -> None:
    (tmp_path / "main.js").write_text(
        'import { twice as double } from "./numbers.js";\nimport { size } from "./texts.js";\n'
        "const local = 1;\nglobalThis.result = double(size);\n"
    )
    (tmp_path / "numbers.js").write_text("const local = 2;\nexport function twice(n) {\n  return n * local;\n}\n")
    (tmp_path / "texts.js").write_text('import { twice } from "./numbers.js";\nexport const size = twice(3);\n')

    script = joined_script(tmp_path)

    assert script.index("$numbers") < script.index("$texts") < script.index("$main")
    assert "const { twice: double } = $numbers;" in script
    assert "import " not in script
    assert "export " not in script


def test_the_files_of_the_page_hold_nothing_that_a_scan_takes_for_a_secret() -> None:
    assert run_command(["redact", "scan", str(STATIC)]) == 0
