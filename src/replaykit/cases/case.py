"""ReplayCase: a failure as a versioned directory; reads and writes its case file."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec
import orjson
from msgspec import Struct

from replaykit.arguments import checked
from replaykit.cases.case_shape import CASE, CASE_FORMAT, DEFAULT_TIMEOUT_S, EvidenceMode, ModelMode
from replaykit.cases.tagged_values import as_it_stands
from replaykit.checks.assertions import Assertions, parse_assertions
from replaykit.documents.document import Document, FilePath, confined_file, confined_path, load_document
from replaykit.documents.shape import Flaw, Flaws, describe, find_flaws, refuse_flaws
from replaykit.errors import FormatTooNew, InvalidFile
from replaykit.model.changed_files import ChangedFile
from replaykit.model.events import Call
from replaykit.model.faults import ChaosPlan
from replaykit.model.isolation import NO_CONSENT, Consent
from replaykit.model.matching import MatchRules, ToolErrors, ToolMode
from replaykit.model.tool_errors import EVERY_TOOL as EVERY_TOOL
from replaykit.model.values import ABSENT, NULL, Json, JsonObject, Raw, decode
from replaykit.wire.json_fields import as_object, filled

M = TypeVar("M", bound=StrEnum)
CASE_FILE = "case.yaml"
JUDGEMENTS_FILE = "judgements.json"
"""The file of stored answers to what assertions cannot check, beside a case."""
MAX_CASE_BYTES = 8 * 1024 * 1024
MAX_FLAWS = 100  # enough to repair a case; a file with more is something else

RECORDED = "recorded"
"""The name of the take that a case begins with; see `cases.takes`."""
_COMMENTS = {
    "observed": "failure signatures: does it still go wrong this way?",
    "desired": "what a fix must show",
    "semantic": "needs_human until a judge is configured",
}


class CaseSource(Struct, frozen=True, kw_only=True):
    """The origin of a case: the trace, the run in it, and the trace's format."""

    trace: str | None = None
    """A path relative to the case's directory."""
    run: str | None = None
    format: str | None = None


class Scenario(Struct, frozen=True, kw_only=True):
    """The world that a candidate runs in."""

    input_json: Raw = NULL
    stdin: bool = False
    """True if a program reads the input from its standard input."""
    context_json: Raw = ABSENT
    """The context that the agent gets beside its input, if a session has one."""
    tools: tuple[tuple[str, ToolMode], ...] = ((EVERY_TOOL, ToolMode.RECORDED),)
    """Tool names with the source of their answers; `*` stands for the others."""
    tool_errors: tuple[tuple[str, ToolErrors], ...] = ()
    """Tool names with the way their failed calls end, where the trace shows only a text; `*` stands for the others."""
    models: ModelMode = ModelMode.RECORDED
    match: MatchRules = MatchRules()
    clock: str | None = None
    """The time that the agent sees; see `case_shape.parse_clock`."""
    seed: int | str | None = None
    not_held: tuple[str, ...] = ()
    """Random sources that the recording could not capture, such as `secrets`."""
    held_up_s: float = 0.0
    """See `Chance.held_up_s`."""
    after_calls_s: float = 0.0
    """See `Chance.after_calls_s`."""
    changed_files: tuple[ChangedFile, ...] = ()
    """The files that the recorded run changed."""
    environment: tuple[tuple[str, str], ...] = ()
    """Environment variables with their recorded values."""
    trusted: tuple[str, ...] = ()
    """The variables that the user allows to be set; see `pins.is_harmless`. No file can set this."""
    timeout_s: float = DEFAULT_TIMEOUT_S
    take: str = RECORDED
    """The take that a candidate is tried with first."""
    is_only_take: bool = False
    """True if the user wants this take and no other. No file can set this."""
    notes_sources: bool = False
    """See `World.notes_sources`. No file can set this."""
    chaos: ChaosPlan | None = None
    """The faults that the user asks for. No file can set this."""
    tie_picks: tuple[int, ...] = ()
    """See `World.tie_picks`. No file can set this."""
    draw: int = 0
    """The draw of the random values that are not held; see `Pins.draw`. No file can set this."""
    was_seen_red: bool = False
    """True if a candidate was just seen to fail, whatever the proof says. No file can set this."""
    consent: Consent = NO_CONSENT
    """The live calls and connections that the user allows. No file can set this."""

    @property
    def input(self) -> Json:
        """The input of the agent."""
        return decode(self.input_json)

    def tool_mode(self, name: str) -> ToolMode:
        """Return the source of this tool's answers."""
        modes = dict(self.tools)
        return modes.get(name, modes.get(EVERY_TOOL, ToolMode.RECORDED))


class ReplayCase(Struct, frozen=True, kw_only=True):
    """A versioned failure: the scenario, how it went wrong, and what a fix must show."""

    id: str
    title: str = ""
    source: CaseSource = CaseSource()
    scenario: Scenario = Scenario()
    observed: Assertions = ()
    desired: Assertions = ()
    desired_after: Callable[[Iterable[str]], Assertions] | None = None
    """Returns the desired assertions after faults of these names, if they differ."""
    semantic: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    notes: str = ""
    rests_on_output: bool = False
    """True if a right answer may need none of the recorded answers, by a person's word: `evidence: output`."""
    is_session: bool = False
    """True for a session, which has a contract instead of signatures."""
    expected_failure: str = ""
    """A session's description of the failure."""
    tape: tuple[Call, ...] | None = None
    """The recorded calls of a case without a directory of fixtures."""
    directory: Path = Path()
    file_name: str = CASE_FILE

    @property
    def file(self) -> Path:
        """The case file."""
        return self.directory / self.file_name

    @property
    def trace_path(self) -> Path | None:
        """The source trace; raise `InvalidFile` if it lies outside of the case's directory."""
        if self.source.trace is None:
            return None
        try:
            return confined_path(self.directory, self.source.trace)
        except ValueError as error:
            raise InvalidFile(f"source.trace: {error}", file=str(self.file)) from None


@checked('rk.load_case("cases/billing")')
def load_case(path: FilePath) -> ReplayCase:
    """Load the case in a file or directory; an `InvalidFile` names the line of the first flaw.

    >>> rk.load_case("cases/refunds").scenario.input
    'Where is my refund?'
    """
    document, directory = open_case(path)
    refuse_flaws(document, find_case_flaws(document, directory))
    return build_case(document, directory)


def open_case(path: FilePath) -> tuple[Document, Path]:
    """Return the document of a case and its directory; raise `FormatTooNew` for a newer version."""
    file = Path(path)
    if file.is_dir():
        file = file / CASE_FILE
    document = load_document(confined_file(file.parent, file.name), limit_bytes=MAX_CASE_BYTES)
    version = as_object(document.value).get("replaykit")
    if type(version) is int and version > CASE_FORMAT:
        raise FormatTooNew(f"{file}: case format {describe(version)}, this version reads up to {CASE_FORMAT}")
    return document, file.parent


def find_case_flaws(document: Document, directory: Path) -> Flaws:
    """Yield everything that keeps a document from being a case, up to `MAX_FLAWS`."""
    yield from islice(find_flaws(CASE, document.value), MAX_FLAWS)
    trace = as_object(as_object(document.value).get("source")).get("trace")
    if isinstance(trace, str):
        try:
            confined_path(directory, trace)
        except ValueError as error:
            hint = "Copy the trace into the case's directory."
            yield Flaw(("source", "trace"), "path-leaves-case", f"source.trace: {error}", hint)


def build_case(document: Document, directory: Path) -> ReplayCase:
    """Build the case that a valid document describes."""
    value = document.value
    return ReplayCase(
        id=value["id"],
        title=value.get("title", ""),
        source=CaseSource(**value.get("source", {})),
        scenario=_build_scenario(value.get("scenario", {})),
        observed=parse_assertions(value.get("observed", [])),
        desired=parse_assertions(value.get("desired", [])),
        semantic=tuple(value.get("semantic", [])),
        rests_on_output=value.get("evidence") == EvidenceMode.OUTPUT,
        tags=tuple(value.get("tags", [])),
        notes=value.get("notes", ""),
        directory=directory,
        file_name=Path(document.file).name,
    )


def _build_scenario(value: JsonObject) -> Scenario:
    return Scenario(
        input_json=as_it_stands(value.get("input")),
        stdin=value.get("stdin", False),
        tools=_by_tool(value.get("tools", ToolMode.RECORDED), ToolMode),
        tool_errors=_by_tool(value.get("tool_errors", {}), ToolErrors),
        models=ModelMode(value.get("models", ModelMode.RECORDED)),
        match=msgspec.convert(value.get("match", {}), MatchRules),
        clock=value.get("clock"),
        seed=value.get("seed"),
        not_held=tuple(value.get("not_held", ())),
        held_up_s=value.get("held_up_s", 0.0),
        after_calls_s=value.get("after_calls_s", 0.0),
        changed_files=tuple(ChangedFile(**fields) for fields in value.get("changed_files", ())),
        environment=tuple(value.get("environment", {}).items()),
        timeout_s=value.get("timeout_s", DEFAULT_TIMEOUT_S),
        take=value.get("take", RECORDED),
    )


def _by_tool(value: Json, mode_type: type[M]) -> tuple[tuple[str, M], ...]:
    """Return the mode of each tool; a single word stands for every tool."""
    by_name = value if isinstance(value, dict) else {EVERY_TOOL: value}
    return tuple((name, mode_type(mode)) for name, mode in by_name.items())


def dump_case(case: ReplayCase) -> str:
    """Return the text of the case file, which reads back as the same case."""
    from replaykit.documents.yaml_writer import emit_yaml  # noqa: PLC0415 (most cases are only read)

    value = {
        "replaykit": CASE_FORMAT,
        "id": case.id,
        "title": case.title,
        "source": filled(msgspec.structs.asdict(case.source)),
        "scenario": _dump_scenario(case.scenario),
        "observed": _dump_assertions(case.observed),
        "desired": _dump_assertions(case.desired),
        "semantic": list(case.semantic),
        "evidence": EvidenceMode.OUTPUT.value if case.rests_on_output else None,
        "tags": list(case.tags),
        "notes": case.notes,
    }
    return emit_yaml(filled(value), _COMMENTS)


def _dump_assertions(assertions: Assertions) -> list[JsonObject]:
    return [{assertion.kind: assertion.value} for assertion in assertions]


def _dump_scenario(scenario: Scenario) -> JsonObject:
    value = {
        "input": orjson.loads(bytes(scenario.input_json)),
        "stdin": scenario.stdin or None,
        "tools": _dump_by_tool(scenario.tools),
        "tool_errors": _dump_by_tool(scenario.tool_errors) or None,
        "models": str(scenario.models),
        "match": _dump_match(scenario.match),
        "clock": scenario.clock,
        "seed": scenario.seed,
        "not_held": list(scenario.not_held) or None,
        "held_up_s": scenario.held_up_s or None,
        "after_calls_s": scenario.after_calls_s or None,
        "changed_files": [filled(msgspec.structs.asdict(changed)) for changed in scenario.changed_files] or None,
        "environment": dict(scenario.environment) or None,
        "timeout_s": scenario.timeout_s,
        "take": None if scenario.take == RECORDED else scenario.take,
    }
    # A null input stays: without the key, a reader would take it for a forgotten one.
    return {key: item for key, item in value.items() if key == "input" or item is not None}


def _dump_by_tool(modes: tuple[tuple[str, ToolMode | ToolErrors], ...]) -> Json:
    """Return one word if it holds for every tool, or else a word for each."""
    by_name = {name: str(mode) for name, mode in modes}
    if by_name.keys() == {EVERY_TOOL}:
        return by_name[EVERY_TOOL]
    return by_name


def _dump_match(rules: MatchRules) -> JsonObject:
    value = {
        "mode": str(rules.mode),
        "ignore": list(rules.ignore),
        "on_miss": str(rules.on_miss),
        "live": list(rules.live),
        "network": list(rules.network),
        "fault": rules.fault and msgspec.structs.asdict(rules.fault),
        "model": rules.model and str(rules.model),
        "redaction_key_id": rules.redaction_key_id,
    }
    return filled(value)
