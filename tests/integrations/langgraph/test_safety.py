"""Nothing that a store says about a thread is run, and nothing that a saver may not make is kept or read."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pydantic
import pytest
from graphs_for_savers import THREAD, Elsewhere, history
from langgraph.graph import START, StateGraph
from tests.matrix import matrix
from typing_extensions import TypedDict

import replaykit as rk
from replaykit.errors import CorruptStore, ReplayKitError, UsageError
from replaykit.integrations.langgraph import ReplayKitSaver
from replaykit.model.events import Note, State
from replaykit.model.values import Raw

ran: list[str] = []


@dataclass
class Careful:
    n: int

    def __post_init__(self) -> None:
        ran.append("__post_init__")

    def __setattr__(self, name: str, value: Any) -> None:
        ran.append("__setattr__")
        super().__setattr__(name, value)


class Strict(pydantic.BaseModel):
    n: int
    _seen: int = pydantic.PrivateAttr(0)

    def __init__(self, **fields: Any) -> None:
        ran.append("__init__")
        super().__init__(**fields)

    @pydantic.field_validator("n")
    @classmethod
    def check(cls, value: int) -> int:
        ran.append("validator")
        return value

    def model_post_init(self, context: Any) -> None:
        ran.append("model_post_init")

    def __setstate__(self, state: Any) -> None:
        ran.append("__setstate__")
        super().__setstate__(state)


class Loose:
    def __init__(self, n: int) -> None:
        self.n = n


class Any_(TypedDict, total=False):
    value: Any
    n: int


def keeper(saver: Any, *values: Any) -> Any:
    """A graph that puts these values into its state, one by one."""

    def keep(state: Any_) -> Any_:
        return {"value": values[state.get("n", 0)], "n": state.get("n", 0) + 1}

    graph = StateGraph(Any_)
    graph.add_node(keep)
    graph.add_edge(START, "keep")
    return graph.compile(checkpointer=saver)


@pytest.mark.parametrize(
    "value", [Loose(1), Careful(1), print, int, object(), {"deep": [(Loose(1),)]}], ids=lambda v: type(v).__name__
)
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_value_of_an_unknown_type_is_an_error_and_leaves_the_thread_as_it_was(
    saver: ReplayKitSaver, value: Any, durability: Any
) -> None:
    graph = keeper(saver, "fine", value, "fine again")
    graph.invoke({"n": 0}, THREAD, durability=durability)
    before = [state["values"] for state in history(graph)]

    with pytest.raises(UsageError, match="which this saver does not know"):
        graph.invoke({"n": 1}, THREAD, durability=durability)

    after = [state["values"] for state in history(graph)]
    assert after[-len(before) :] == before
    assert all(values.get("value", "fine") == "fine" for values in after)
    assert graph.invoke({"n": 2}, THREAD)["value"] == "fine again"
    saver.close()
    assert graph.get_state(THREAD).values["value"] == "fine again"


def test_the_error_says_what_to_allow(saver: ReplayKitSaver) -> None:
    with pytest.raises(UsageError) as caught:
        keeper(saver, Careful(1)).invoke({"n": 0}, THREAD)

    assert "test_safety.Careful" in str(caught.value)
    assert caught.value.hint == "Allow it: ReplayKitSaver(allow=[Careful])"


def test_a_thread_with_allowed_classes_is_read_without_running_their_code(own_directory: Path) -> None:
    allowed = [Careful, Strict]
    with ReplayKitSaver("s.db", allow=allowed) as saver:
        keeper(saver, [Careful(1), Strict(n=2)]).invoke({"n": 0}, THREAD)
    assert set(ran) >= {"__init__", "__post_init__", "validator", "model_post_init"}, "the program ran them"
    ran.clear()

    with ReplayKitSaver("s.db", allow=allowed) as saver:
        found = [*saver.list(THREAD)]

    assert found[0].checkpoint["channel_values"]["value"][0].n == 1
    assert found[0].checkpoint["channel_values"]["value"][1].n == 2
    assert ran == []


def test_a_class_that_is_not_allowed_any_more_is_not_made(own_directory: Path) -> None:
    with ReplayKitSaver("s.db", allow=[Careful]) as saver:
        graph = keeper(saver, Careful(1), 2)
        graph.invoke({"n": 0}, THREAD)

    with ReplayKitSaver("s.db") as saver:
        with pytest.raises(UsageError, match=r"holds a .*Careful, which this saver may not make") as caught:
            saver.get_tuple(THREAD)
        assert caught.value.hint is not None
        assert "allow=[Careful]" in caught.value.hint
        saver.copy_thread("t", "copy")  # what needs no value goes on
        saver.prune(["t"])
        saver.delete_thread("t")
        assert saver.get_tuple(THREAD) is None


CANARY = "a_module_that_nobody_has_imported"
HOSTILE: dict[str, Any] = {
    "os.system": {"$obj": ["os.system", "touch owned"]},
    "posix.system": {"$obj": ["posix.system", ["touch owned"]]},
    "subprocess.Popen": {"$obj": ["subprocess.Popen", {"args": ["touch", "owned"]}]},
    "a builtin": {"$obj": ["builtins.eval", "open('owned', 'w')"]},
    "a module of its own": {"$obj": [f"{CANARY}.Thing", {}]},
    "a class that is there": {"$obj": ["pathlib.Path.home", "owned"]},
    "a method": {"$obj": ["langchain_core.messages.human.HumanMessage.model_validate", {"content": "x"}]},
    "a name that is none": {"$obj": [["os", "system"], "touch owned"]},
    "a name that is a number": {"$obj": [1, 2]},
    "too few parts": {"$obj": ["os.system"]},
    "no parts": {"$obj": None},
    "unknown fields": {"$obj": ["langchain_core.messages.human.HumanMessage", {"content": "x", "__class__": "y"}]},
    "fields that are a list": {"$obj": ["langchain_core.messages.human.HumanMessage", [1]]},
    "private fields": {"$obj": ["langchain_core.messages.human.HumanMessage", {"content": "x", "$extra": [1]}]},
    "unknown fields of a record": {"$obj": ["langgraph.types.Interrupt", {"value": 1, "__init__": 2}]},
    "a slot that is none": {"$obj": ["langgraph.types.Send", {"node": "x", "arg": 1, "__module__": "os"}]},
    "an unknown form": {"$pickle": "gASVIQAAAAAAAACMBXBvc2l4lIwGc3lzdGVtlJOUjAZ0b3VjaCCUhZRSlC4="},
    "an opaque form": {"$opaque": "os.system"},
    "a form with a wrong content": {"$datetime": ["now"]},
    "a pattern that is none": {"$obj": ["re.Pattern", ["(", 0]]},
    "a zone that is a file": {"$obj": ["zoneinfo.ZoneInfo", "../../etc/passwd"]},
    "a zone that is a module": {"$obj": ["zoneinfo.ZoneInfo", f"x.{CANARY}"]},
    "a factory": {"$obj": ["collections.defaultdict", ["eval", {}]]},
    "a dict with keys that cannot be": {"$dict": [[[1], 2]]},
    "a set of what cannot be": {"$set": [[1]]},
}
TEXTS = {name: json.dumps(value) for name, value in HOSTILE.items()}
DEEP = 400 if sys.version_info < (3, 12) else 505  # what Python can follow, and JSON texts may still have
TEXTS["very deep"] = '{"$tuple":[' * DEEP + "1" + "]}" * DEEP


def tampered(value: str, *, in_writes: bool = False) -> None:
    """Write a thread, and put a text in the place of a value in its log, sealed as the store itself would."""
    with ReplayKitSaver("s.db") as saver:
        keeper(saver, "the value").invoke({"n": 0}, THREAD)
    with rk.Store.open("s.db") as store:
        run = store.load("thread:t")

        def swap(event: Any) -> Any:
            if isinstance(event, Note if in_writes else State):
                text = msgspec.json.encode(event).replace(b'"the value"', value.encode())
                return msgspec.json.decode(text, type=type(event))
            return event

        store.replace([msgspec.structs.replace(run, events=tuple(map(swap, run.events)))])


@pytest.fixture
def canary(own_directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing is imported, and nothing is done."""
    Path("site").mkdir()
    Path(f"site/{CANARY}.py").write_text("open('owned', 'w').close()\nclass Thing: pass\n")
    monkeypatch.syspath_prepend("site")
    with ReplayKitSaver("harmless.db") as saver:
        keeper(saver, (1,)).invoke({"n": 0}, THREAD)  # whatever is imported on first use is here now
        saver.delete_thread("t")
    modules = set(sys.modules)
    yield
    assert set(sys.modules) - modules == set()
    assert not Path("owned").exists()


@matrix(name=TEXTS, in_writes=[False, True])
def test_a_hostile_value_is_an_error_and_nothing_else(name: str, in_writes: bool, canary: None) -> None:
    text = TEXTS[name]
    tampered(text, in_writes=in_writes)

    with ReplayKitSaver("s.db") as saver:
        for read in (lambda: [*saver.list(THREAD)], lambda: [*saver.list(None)]):
            with pytest.raises((UsageError, CorruptStore)):
                read()
        if not in_writes:
            with pytest.raises((UsageError, CorruptStore)):
                saver.get_tuple(THREAD)
        saver.delete_thread("t")
        assert keeper(saver, "fine").invoke({"n": 0}, THREAD)["value"] == "fine"


@pytest.mark.parametrize(
    "damage",
    [
        (State, "about_json", b"null"),
        (State, "about_json", b'{"id":1}'),
        (State, "about_json", b'{"id":"x","checkpoint":1,"metadata":{}}'),
        (State, "about_json", b'{"id":"x","checkpoint":{},"metadata":[]}'),
        (State, "state_json", b"[1,2]"),
        (Note, "content_json", b'{"os.system":"touch owned"}'),
        (Note, "content_json", b'{"writes":[["n",1]],"numbers":[1,2],"task":"t","checkpoint":"x"}'),
    ],
    ids=lambda damage: f"{damage[0].__name__} {damage[2][:40]!r}",
)
def test_a_log_that_is_no_threads_is_a_named_error(damage: Any, canary: None) -> None:
    kind, field, text = damage
    tampered('"the value"')
    with rk.Store.open("s.db") as store:
        run = store.load("thread:t")
        last = max(event.seq for event in run.events if isinstance(event, kind))
        changed = [
            msgspec.structs.replace(event, **{field: Raw(text)}, **({"change": None} if field == "state_json" else {}))
            if event.seq == last
            else event
            for event in run.events
        ]
        store.replace([msgspec.structs.replace(run, events=tuple(changed))])

    with ReplayKitSaver("s.db") as saver:
        for _ in range(2):  # it does not heal by being looked at
            with pytest.raises(ReplayKitError):
                [*saver.list(THREAD)]


def test_a_chain_of_parents_that_bites_its_tail_ends(own_directory: Path) -> None:
    tampered('"the value"')
    with rk.Store.open("s.db") as store:
        run = store.load("thread:t")
        ids = [event.framework_metadata["id"] for event in run.events if isinstance(event, State)]
        changed = [
            msgspec.structs.replace(
                event, about_json=Raw(msgspec.json.encode({**event.framework_metadata, "parent": ids[-1]}))
            )
            if isinstance(event, State)
            else event
            for event in run.events
        ]
        store.replace([msgspec.structs.replace(run, events=tuple(changed))])

    with ReplayKitSaver("s.db") as saver:
        found = saver.get_delta_channel_history(config=THREAD, channels=["nothing"])

    assert found == {"nothing": {"writes": []}}


def test_a_run_that_is_no_thread_is_left_alone(saver: ReplayKitSaver) -> None:
    with rk.Store.open("threads.db") as store:
        store.add(rk.TraceRun(id="thread:t", events=(Note(seq=0, name="mine"),)))
        store.add(rk.TraceRun(id="other", name="t"))

    for _ in range(2):
        with pytest.raises(ReplayKitError, match="not a thread of a graph"):
            keeper(saver, 1).invoke({"n": 0}, THREAD)
        with pytest.raises(ReplayKitError, match="not a thread of a graph"):
            saver.get_tuple(THREAD)

    saver.delete_thread("t")
    with rk.Store.open("threads.db") as store:
        assert [header.id for header in store.headers()] == ["other", "thread:t"]


AUDITED = """
import json, sys
from replaykit.errors import ReplayKitError
from replaykit.integrations.langgraph import ReplayKitSaver

FORBIDDEN = ("os.system", "os.exec", "os.fork", "os.posix_spawn", "os.spawn", "subprocess.Popen", "exec", "compile",
             "import", "pickle.find_class", "marshal.loads", "ctypes.dlopen", "code.__new__", "socket.connect")
seen = None

def hook(event, arguments):
    if seen is not None and event in FORBIDDEN:
        seen.append([event, repr(arguments)[:100]])

def read(path):
    with ReplayKitSaver(path) as saver:
        for thread in ("t", "u"):
            try: print(list(saver.list({"configurable": {"thread_id": thread}})))
            except ReplayKitError as error: print(error)

sys.addaudithook(hook)
read("s.db")  # whatever is imported on first use is here now
seen = []
read("s.db")
told, seen = seen, []
eval("1")
control, seen = seen, None
print(json.dumps([told, [event for event, _ in control]]))
"""


def test_reading_hostile_threads_does_none_of_what_an_audit_hook_sees(elsewhere: Elsewhere, canary: None) -> None:
    tampered(json.dumps(list(HOSTILE.values())))
    with ReplayKitSaver("s.db") as saver:
        keeper(saver, {"fine": [1]}).invoke({"n": 0}, {"configurable": {"thread_id": "u"}})

    told, control = elsewhere("import sys; sys.path.insert(0, 'site')\n" + AUDITED)

    assert told == []
    assert control == ["compile", "exec"], "the hook does see"


STRICT = """
import dataclasses, enum, json
from typing import TypedDict
from langgraph.graph import START, StateGraph
from replaykit.errors import UsageError
from replaykit.integrations.langgraph import ReplayKitSaver

class Colour(enum.Enum):
    RED = 1

@dataclasses.dataclass
class Paint:
    colour: Colour

class Room(TypedDict, total=False):
    walls: list[Paint]
    n: int

class Bare(TypedDict, total=False):
    walls: list
    n: int

def graph(saver, schema):
    builder = StateGraph(schema)
    builder.add_node("paint", lambda state: {"walls": [Paint(Colour.RED)]})
    builder.add_edge(START, "paint")
    return builder.compile(checkpointer=saver)

thread = {"configurable": {"thread_id": "t"}}
told = []
with ReplayKitSaver("s.db") as saver:
    for schema in (Room, Bare):
        try:
            graph(saver, schema).invoke({"n": 0}, thread)
            told.append(graph(saver, schema).get_state(thread).values["walls"] == [Paint(Colour.RED)])
        except UsageError as error:
            told.append(type(error).__name__)
    relative = saver.with_allowlist({("__main__", "Paint"), ("__main__", "Nothing"), ("os", "system"), ("a", "b", "c")})
    told.append(relative is saver.with_allowlist({("__main__", "Paint")}))
    told.append(relative.with_allowlist({("__main__", "Colour")}) is not saver.with_allowlist({("__main__", "Colour")}))
print(json.dumps(told))
"""


def test_in_strict_mode_the_graphs_own_schema_says_what_is_known(elsewhere: Elsewhere) -> None:
    assert elsewhere(STRICT, LANGGRAPH_STRICT_MSGPACK="true") == [True, "UsageError", True, True]


def test_the_package_is_not_imported_before_it_is_asked_for() -> None:
    program = "import sys, replaykit, replaykit.cli; print('langgraph' in sys.modules, 'langchain_core' in sys.modules)"

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)

    assert done.stdout.split() == ["False", "False"]
