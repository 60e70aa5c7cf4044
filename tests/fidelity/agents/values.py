"""Agents that depend on the type of what a tool returned. No tool here has a return annotation."""

from __future__ import annotations

import math
import subprocess
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntFlag, StrEnum
from pathlib import PurePosixPath
from typing import NamedTuple
from uuid import UUID

import attrs
import numpy as np
import shapes
from collection import every_way, failing, main, ran, took
from pydantic import BaseModel

import replaykit as rk


class Rejected(Exception):
    """The agent refuses to go on."""


def judged(is_bad: object, why: str) -> str:
    took(f"{why}: {bool(is_bad)}")
    if is_bad:
        raise Rejected(why)
    return "fine"


class Status(Enum):
    DONE = "done"
    FAILED = "failed"


@rk.tool
def run_job(name: str):
    ran("run_job")
    return Status.FAILED


@failing("Run the nightly job")
def enum_member(question: str) -> str:
    return judged(run_job("nightly") is Status.FAILED, "the job failed")


@dataclass
class Invoice:
    total: Decimal
    lines: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.lines


@rk.tool
def fetch_invoice(number: int):
    ran("fetch_invoice")
    return Invoice(Decimal("49.90"))


@failing("Explain invoice 3")
def dataclass_method(question: str) -> str:
    invoice = fetch_invoice(3)
    if not isinstance(invoice, Invoice):
        took("not an invoice")
        return "There is no such invoice."
    return judged(invoice.is_empty and invoice.total == Decimal("49.90"), "an invoice without lines")


class Point(NamedTuple):
    lat: float
    lon: float


@rk.tool
def locate(city: str):
    ran("locate")
    return Point(0.0, 0.0)


@failing("Where is Paris?")
def named_tuple(question: str) -> str:
    place = locate("Paris")
    where = getattr(place, "lat", None)
    return judged(where == 0.0 and place == (0.0, 0.0), "null island")


class Plan(BaseModel):
    steps: list[str]
    approved: bool = False


@rk.tool
def make_plan(goal: str):
    ran("make_plan")
    return Plan(steps=["drop table users"])


@failing("Plan the migration")
def pydantic_model(question: str) -> str:
    plan = make_plan("migration")
    match plan:
        case Plan(approved=False, steps=steps):
            return judged(steps, "the plan is not approved")
        case _:
            took("no plan")
            return "There is nothing to do."


@attrs.define
class Ticket:
    key: str
    votes: int = 0


@rk.tool
def find_ticket(key: str):
    ran("find_ticket")
    return Ticket(key)


@failing("Find ticket RK-1")
def attrs_model(question: str) -> str:
    ticket = find_ticket("RK-1")
    votes = getattr(ticket, "votes", 1)
    return judged(votes == 0, "nobody voted")


@rk.tool
def check_health(host: str):
    ran("check_health")
    return {"host": host, "ok": np.bool_(False), "load": np.float64(0.93)}


@failing("Is db-1 healthy?")
def numpy_bool(question: str) -> str:
    health = check_health("db-1")
    return judged(not health["ok"], "the host is not healthy")


@rk.tool
def embed(text: str):
    ran("embed")
    return np.zeros(4, dtype=np.float32)


@failing("Embed the question")
def numpy_array(question: str) -> str:
    vector = embed(question)
    norm = float(np.linalg.norm(vector)) if isinstance(vector, np.ndarray) else 1.0
    return judged(norm == 0.0 and vector.dtype == np.float32, "a vector of zeros")


@rk.tool
def nearest(vector, count):
    ran("nearest")
    return {"indices": np.array([2, 0], dtype=np.int64)[:count], "of": vector.shape}


@failing("Find the nearest documents")
def numpy_argument(question: str) -> str:
    found = nearest(np.arange(3, dtype=np.float64), np.int64(2))
    first = found["indices"][0]
    return judged(first == 2 and tuple(found["of"]) == (3,), "the wrong document")


@rk.tool
def list_incidents(team: str):
    ran("list_incidents")
    return {"open": [shapes.Incident("disk full", shapes.Severity.HIGH)], "team": team}


@failing("What is open?")
def nested_classes_of_another_module(question: str) -> str:
    incidents = list_incidents("storage")["open"]
    urgent = [incident for incident in incidents if getattr(incident, "is_urgent", False)]
    return judged(urgent, "an urgent incident")


@rk.tool
def read_pair(key: str):
    ran("read_pair")
    return (key, None)


@failing("Read the pair")
def tuple_not_list(question: str) -> str:
    pair = read_pair("k")
    return judged(isinstance(pair, tuple) and pair[1] is None, "half a pair")


@rk.tool
def token_info(user: str):
    ran("token_info")
    return {"expires": datetime(2020, 1, 1, tzinfo=UTC), "grace": timedelta(days=1)}


@failing("Is the token valid?")
def aware_datetime(question: str) -> str:
    info = token_info("alice")
    return judged(info["expires"] + info["grace"] < datetime(2021, 1, 1, tzinfo=UTC), "the token has expired")


@rk.tool
def download(name: str):
    ran("download")
    return b"\x89PNG\r\n\x1a\n"


@failing("Show the picture")
def raw_bytes(question: str) -> str:
    data = download("picture.png")
    is_picture = isinstance(data, bytes) and data.startswith(b"\x89PNG")
    return judged(is_picture and len(data) == 8, "a picture without pixels")


@rk.tool
def permissions(user: str):
    ran("permissions")
    return {"read", "list"}


@failing("Delete the file")
def set_membership(question: str) -> str:
    granted = permissions("bob")
    return judged(isinstance(granted, set) and "write" not in granted, "bob may not write")


class Mode(IntFlag):
    READ = 4
    WRITE = 2


class Channel(StrEnum):
    MAIL = "mail"


@rk.tool
def open_mode(name: str):
    ran("open_mode")
    return {"mode": Mode.READ, "channel": Channel.MAIL}


@failing("Write to the log")
def flags(question: str) -> str:
    opened = open_mode("log")
    writable = Mode.WRITE in opened["mode"] if isinstance(opened["mode"], Mode) else True
    return judged(not writable and isinstance(opened["channel"], Channel), "opened for reading only")


@rk.tool
def count_by_year(topic: str):
    ran("count_by_year")
    return {2023: 4, 2024: 0}


@failing("How many in 2024?")
def integer_keys(question: str) -> str:
    counts = count_by_year("papers")
    return judged(counts.get(2024) == 0, "no papers")


@rk.tool
def average(column: str):
    ran("average")
    return {"mean": math.nan, "max": math.inf}


@failing("What is the average?")
def not_a_number(question: str) -> str:
    figures = average("price")
    return judged(isinstance(figures["mean"], float) and math.isnan(figures["mean"]), "no average")


@rk.tool
def new_upload(name: str):
    ran("new_upload")
    return {"id": UUID(int=0), "path": PurePosixPath("/") / name}


@failing("Upload the report")
def paths_and_ids(question: str) -> str:
    upload = new_upload("report.pdf")
    is_root = getattr(upload["path"], "parent", None) == PurePosixPath("/")
    return judged(upload["id"] == UUID(int=0) and is_root, "uploaded to the root")


class Answer(str):
    """A text that knows where it comes from."""

    source = "nowhere"


@rk.tool
def complete(prompt: str):
    ran("complete")
    return Answer("forty-two")


@failing("What is the answer?", may_be_inconclusive=every_way("Answer"))
def subclass_of_text(question: str) -> str:
    answer = complete(question)
    return judged(getattr(answer, "source", "") == "nowhere", "an answer without a source")


@rk.tool
def tally(votes: int):
    ran("tally")
    counted: defaultdict[str, int] = defaultdict(int)
    counted["yes"] = votes
    return {"counted": counted, "order": OrderedDict(b=1, a=2)}


@failing("Who won?", may_be_inconclusive=every_way("defaultdict"))
def default_dict(question: str) -> str:
    result = tally(3)
    noes = result["counted"]["no"] if isinstance(result["counted"], defaultdict) else 1
    return judged(noes == 0, "nobody voted no")


class Connection:
    """A handle on something outside of the process."""

    def __init__(self) -> None:
        self.is_open = False


@rk.tool
def connect(host: str):
    ran("connect")
    return Connection()


@failing("Connect to the database", inconclusive=every_way("connect"))
def opaque_object(question: str) -> str:
    connection = connect("db-1")
    return judged(not connection.is_open, "the connection is closed")


@rk.tool
def enrich(rows: list):
    ran("enrich")
    rows.append({"added": True})
    return len(rows)


@failing("Enrich the rows", inconclusive=every_way("enrich"))
def mutated_argument(question: str) -> str:
    rows: list[dict] = [{"id": 1}]
    enrich(rows)
    return judged(len(rows) == 2, "a row too many")


@dataclass(frozen=True)
class Query:
    text: str
    limit: int = 10


@rk.tool
def search(query: Query):
    ran("search")
    return [query]


@failing("Search for lamps")
def dataclass_argument(question: str) -> str:
    found = search(Query("lamps", 3))
    return judged(found == [Query("lamps", 3)], "only the query was found")


class Outer:
    class Inner(Enum):
        OFF = 0


@rk.tool
def switch_state(name: str):
    ran("switch_state")
    return [Outer.Inner.OFF]


@failing("Is the light on?")
def nested_enum(question: str) -> str:
    return judged(switch_state("light") == [Outer.Inner.OFF], "the light is off")


@rk.tool
def empty_grid(rows: int):
    ran("empty_grid")
    return [[0, 0]] * rows


@failing("Mark the first field")
def rows_that_are_one_list(question: str) -> str:
    grid = empty_grid(3)
    grid[0][0] = 1
    return judged(sum(map(sum, grid)) == 3, "three fields are marked")


@rk.tool
def run_command(command: list[str]):
    ran("run_command")
    return subprocess.CompletedProcess(command, 2, "", "no such option")


@failing("List the files")
def completed_process(question: str) -> str:
    done = run_command(["ls", "--all-of-them"])
    took(f"{type(done).__name__} {done.returncode}")
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        raise Rejected(f"{done.stderr}: {error.returncode}") from None
    return "listed"


if __name__ == "__main__":
    main(globals())
