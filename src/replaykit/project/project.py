"""Load a configuration file as a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from replaykit.arguments import checked
from replaykit.cases.case_shape import ModelMode
from replaykit.cases.chaos_shape import plan_of
from replaykit.cases.config_files import MAX_CONFIG_BYTES, WORKING_TREE, ConfigFiles, load_config
from replaykit.cases.session import Session, read_session
from replaykit.checks.assertions import Assertions, parse_assertions
from replaykit.contracts.contract import Contract
from replaykit.contracts.find import contract_of, find_contract
from replaykit.documents.document import Document, FilePath
from replaykit.documents.shape import Record, describe, find_flaws, refuse_flaws
from replaykit.errors import FormatTooNew, InvalidFile, UsageError
from replaykit.judges.shape import MODEL, JudgeSpec, judge_spec_of
from replaykit.model.faults import ChaosPlan
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject
from replaykit.project.agent import AgentConfig, agent_of
from replaykit.project.shape import FLAKESTORM, FLAKESTORM_TYPES, LEFT_OUT, MAX_MUTATIONS, PROJECT, PROJECT_FORMAT
from replaykit.project.sources import SessionSource, source_of
from replaykit.retention.policy import RetentionPolicy, build_policy
from replaykit.wire.json_fields import as_object


class Scoring(Struct, frozen=True, kw_only=True):
    """The weight of each part in the overall score."""

    mutation: float = 0.20
    chaos: float = 0.35
    contract: float = 0.35
    replay: float = 0.10


class Mutations(Struct, frozen=True, kw_only=True):
    """How the inputs are mutated."""

    count: int = 9
    """The number of mutations of each input."""
    kinds: tuple[str, ...] = ()
    """Empty for all kinds."""
    by: JudgeSpec | None = None
    """The model that writes them; None for rules."""


class Project(Struct, frozen=True, kw_only=True):
    """The content of a configuration file."""

    file: Path
    files: ConfigFiles = WORKING_TREE
    """The working tree or the revision that the configuration is read from."""
    agent: AgentConfig | None = None
    variables: tuple[str, ...] | None = None
    """The environment variables that texts may use; None for all of them."""
    inputs: tuple[Json, ...] = ()
    """The inputs for contracts without probes: `inputs` or `golden_prompts`."""
    cases: tuple[Path, ...] = ()
    """Directories and files, relative to the working directory."""
    contracts: dict[str, Contract] = {}
    chaos: ChaosPlan | None = None
    """Faults; replays have none unless a command asks for them."""
    mutations: Mutations | None = None
    sessions: tuple[Session | InvalidFile, ...] = ()
    """The sessions in the file or in files it names; an error stands for an invalid one."""
    sources: tuple[SessionSource, ...] = ()
    models: ModelMode = ModelMode.RECORDED
    scoring: Scoring = Scoring()
    judge: JudgeSpec | None = None
    checks: Assertions = ()
    retention: RetentionPolicy = RetentionPolicy()
    """The retention of recorded runs."""
    min_score: float | None = None
    """The score that `ci` requires, as a percentage."""
    concurrency: int | None = None
    seed: int | None = None
    notices: tuple[str, ...] = ()
    """Remarks about parts of the file that are ignored."""

    @property
    def directory(self) -> Path:
        """The directory that relative paths start from."""
        return self.file.parent

    def error(self, message: str, place: DocumentPath = (), *, hint: str | None = None) -> UsageError:
        """Return an error about a part of the file, with its line."""
        return self.document().error(message, place, hint=hint)

    def document(self) -> Document:
        """Read the file again, for line numbers; raise `InvalidFile` if it is gone."""
        return load_config(self.file, limit_bytes=MAX_CONFIG_BYTES, files=self.files)


@checked('rk.load_project("replaykit.yaml")')
def load_project(path: FilePath, files: ConfigFiles = WORKING_TREE) -> Project:
    """Load a configuration file; an `InvalidFile` names the line of the first flaw.

    >>> project = rk.load_project("replaykit.yaml")
    >>> project.agent.endpoint
    'my_agent:answer'
    """
    document = load_config(Path(path), limit_bytes=MAX_CONFIG_BYTES, files=files)
    shape = _shape_of(document)
    refuse_flaws(document, find_flaws(shape, document.value))
    return _built(document, Path(path), files)


def _shape_of(document: Document) -> Record:
    """Return the shape for the file's format; without a version it is ours, so that the error says what to add."""
    value = document.value
    if not isinstance(value, dict):
        message = "the file is empty"
        if value is not None:
            message = f"expected a mapping, got {describe(value)}"
        raise document.error(message, hint="Begin with `replaykit: 1`; or run `replaykit init`.")
    version = value.get("replaykit")
    if type(version) is int and version > PROJECT_FORMAT:
        raise FormatTooNew(
            f"{document.file}: configuration format {describe(version)}, this version reads up to {PROJECT_FORMAT}"
        )
    if "version" in value and "replaykit" not in value:
        return FLAKESTORM
    return PROJECT


def _built(document: Document, file: Path, files: ConfigFiles) -> Project:
    value: JsonObject = {key: part for key, part in document.value.items() if part is not None}
    replays, advanced = value.get("replays", {}), value.get("advanced") or {}
    return Project(
        file=file,
        files=files,
        inputs=tuple(value.get("inputs") or value.get("golden_prompts") or ()),
        cases=_cases(value.get("cases", ()), file.parent),
        contracts={contract.name: contract for contract in _contracts(document, value)},
        sessions=tuple(_sessions(document, replays.get("sessions") or ())),
        sources=tuple(map(source_of, replays.get("sources") or ())),
        models=ModelMode(replays.get("models", ModelMode.RECORDED)),
        scoring=_scoring(value.get("scoring", {})),
        checks=parse_assertions(value.get("checks", ())),
        retention=build_policy(value.get("retention", {})),
        min_score=value.get("ci", {}).get("min_score"),
        concurrency=advanced.get("concurrency"),
        seed=advanced.get("seed"),
        notices=tuple(_notices(document, value)),
        **_optional_parts(document, value, advanced),
    )


def _optional_parts(document: Document, value: JsonObject, advanced: JsonObject) -> dict[str, Any]:
    """Return the members of a project that are None unless the file defines them."""
    parts: dict[str, Any] = {}
    if "variables" in value:
        parts["variables"] = tuple(value["variables"])
    if "agent" in value:
        parts["agent"] = agent_of(value["agent"], retries=advanced.get("retries", 0))
    if "chaos" in value:
        parts["chaos"] = plan_of(value["chaos"], seed=advanced.get("seed") or 0)
    if "mutations" in value:
        parts["mutations"] = _mutations(document, value["mutations"])
    if "judge" in value:
        parts["judge"] = judge_spec_of(value["judge"])
    return parts


def _cases(paths: str | list[str], directory: Path) -> tuple[Path, ...]:
    if isinstance(paths, str):
        paths = [paths]
    return tuple(directory / path for path in paths)


def _contracts(document: Document, value: JsonObject) -> Iterator[Contract]:
    """Yield the contracts of the file; `chaos_matrix` beside them applies to each that has none."""
    contracts: list[tuple[DocumentPath, JsonObject]] = []
    if "contract" in value:
        contracts.append((("contract",), value["contract"]))
    several = value.get("contracts", ())
    if isinstance(several, dict):
        contracts += [(("contracts", name), {"name": name, **contract}) for name, contract in several.items()]
    else:
        contracts += [(("contracts", index), contract) for index, contract in enumerate(several)]
    for path, contract in contracts:
        yield contract_of({"chaos_matrix": value.get("chaos_matrix"), **contract}, document, path)


def _sessions(document: Document, values: Iterable[Json]) -> Iterator[Session | InvalidFile]:
    for index, value in enumerate(values):
        try:
            yield read_session(document, ("replays", "sessions", index), value=value)
        except InvalidFile as error:
            yield error


def _mutations(document: Document, value: Json) -> Mutations:
    """Read the mutations; of Flakestorm's block only the count and the types apply, and our own `by`."""
    from replaykit.handlers.chaos.mutations import KINDS, WORDINGS  # noqa: PLC0415 (few projects mutate)

    block = as_object(value)
    by, known = None, KINDS
    if block.get("by") is not None:
        refuse_flaws(document, find_flaws(MODEL, block["by"], ("mutations", "by")))
        by, known = judge_spec_of(block["by"]), tuple(WORDINGS)
    types = block.get("types")
    if not isinstance(types, list):
        types = block.get("kinds") or ()
    kinds: dict[str, None] = {}
    for name in types:
        if isinstance(name, str) and FLAKESTORM_TYPES.get(name, name) in known:
            kinds.setdefault(FLAKESTORM_TYPES.get(name, name))
    count = block.get("count")
    if type(count) is not int or not 0 < count <= MAX_MUTATIONS:
        count = Mutations().count
    return Mutations(count=count, kinds=tuple(kinds), by=by)


def _author_text(value: JsonObject) -> str:
    if as_object(value["mutations"]).get("by") is not None:
        return "what the model wrote is looked up"
    return "rules make them"


def _scoring(value: JsonObject) -> Scoring:
    """Return the weights; if only some are given, the others are 0."""
    if value:
        return Scoring(**{"mutation": 0.0, "chaos": 0.0, "contract": 0.0, "replay": 0.0, **value})
    return Scoring()


def _notices(document: Document, value: JsonObject) -> Iterator[str]:
    for key, why in LEFT_OUT.items():
        if key in value:
            yield f"{document.file}:{document.line((key,))}: `{key}` is not read: {why}"
    if "version" in value and "replaykit" not in value and "mutations" in value:
        line = document.line(("mutations",))
        author = _author_text(value)
        yield f"{document.file}:{line}: of `mutations` the keys `count`, `types` and `by` are read: {author}"
    if isinstance(value.get("agent"), dict) and "parse_structured_input" in value["agent"]:
        line = document.line(("agent", "parse_structured_input"))
        yield (
            f"{document.file}:{line}: `parse_structured_input` is not read: {{field}} in a template is a member of an "
            "input that is a mapping"
        )


def chosen_contract(project: Project | None, name: str | None) -> Contract:
    """Return the contract of this name or path; without a name, the project's only one."""
    known = project.contracts if project is not None else {}
    if name is not None:
        if project is None:
            return find_contract(name, known, Path())
        return find_contract(name, known, project.directory, project.files)
    if len(known) == 1:
        return next(iter(known.values()))
    where = str(project.file) if project is not None else "no replaykit.yaml"
    if known:
        raise UsageError(f"which contract? {where} has {len(known)}", hint=f"Name one: {', '.join(sorted(known))}")
    raise UsageError(
        f"which contract? {where} holds none", hint="Write one under `contract:`, or name a file that holds one."
    )
