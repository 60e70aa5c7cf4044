"""`load_project`: a configuration file as a value."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from msgspec import Struct

from replaykit.cases.case_shape import ModelMode
from replaykit.cases.chaos_shape import plan_of
from replaykit.cases.config_files import WORKING_TREE, ConfigFiles, load_config
from replaykit.cases.document import Document
from replaykit.cases.document import Path as Place
from replaykit.cases.session import Session, read_session
from replaykit.cases.shape import Record, describe, find_flaws
from replaykit.checks.assertions import Assertion, parse_assertion
from replaykit.contracts.build import contract_of
from replaykit.contracts.contract import Contract
from replaykit.errors import FormatTooNew, InvalidFile, UsageError
from replaykit.judges.shape import MODEL, JudgeSpec, judge_spec_of
from replaykit.model.faults import ChaosPlan
from replaykit.model.values import Json
from replaykit.project.agent import Agent, agent_of
from replaykit.project.shape import FLAKESTORM, FLAKESTORM_TYPES, LEFT_OUT, MAX_MUTATIONS, PROJECT, PROJECT_FORMAT
from replaykit.project.sources import Source, source_of
from replaykit.retention.policy import Policy
from replaykit.retention.shape import policy_of

MAX_PROJECT_BYTES = 8 * 1024 * 1024


class Scoring(Struct, frozen=True, kw_only=True):
    """What each part weighs in the overall score."""

    mutation: float = 0.20
    chaos: float = 0.35
    contract: float = 0.35
    replay: float = 0.10


class Mutations(Struct, frozen=True, kw_only=True):
    """How the inputs are said otherwise."""

    count: int = 9
    """For each input."""
    kinds: tuple[str, ...] = ()
    """All when there is none."""
    by: JudgeSpec | None = None
    """The model that wrote them; rules make them without one."""


class Project(Struct, frozen=True, kw_only=True):
    """What a configuration file says."""

    file: Path
    files: ConfigFiles = WORKING_TREE
    """Where it was read, and what else acts as configuration is."""
    agent: Agent | None = None
    variables: tuple[str, ...] | None = None
    """The variables of the environment that may be filled in; all when it is None."""
    inputs: tuple[Json, ...] = ()
    """What the agent is asked where a contract has no probes: `inputs`, or `golden_prompts`."""
    cases: tuple[Path, ...] = ()
    """Directories and files, relative to the working directory."""
    contracts: dict[str, Contract] = {}
    chaos: ChaosPlan | None = None
    """Faults; no replay has them unless somebody asks."""
    mutations: Mutations | None = None
    sessions: tuple[Session | InvalidFile, ...] = ()
    """Those it writes or names; an error stands for one whose file is wrong."""
    sources: tuple[Source, ...] = ()
    models: ModelMode = ModelMode.RECORDED
    scoring: Scoring = Scoring()
    judge: JudgeSpec | None = None
    checks: tuple[Assertion, ...] = ()
    retention: Policy = Policy()
    """Which recorded runs stay."""
    min_score: float | None = None
    """Of `ci`, as a percentage."""
    concurrency: int | None = None
    seed: int | None = None
    notices: tuple[str, ...] = ()
    """What of the file is not used, in words."""

    @property
    def directory(self) -> Path:
        """Where its paths begin."""
        return self.file.parent

    def error(self, message: str, place: Place = (), *, hint: str | None = None) -> UsageError:
        """The error that says what is wrong with a part of the file, and where that is."""
        return self.document().error(message, place, hint=hint)

    def document(self) -> Document:
        """The file once more, for the lines of things; `InvalidFile` when it is gone."""
        return load_config(self.file, limit_bytes=MAX_PROJECT_BYTES, files=self.files)


def load_project(path: str | os.PathLike[str], files: ConfigFiles = WORKING_TREE) -> Project:
    """The configuration in a file; `InvalidFile` names the line of the first thing that is wrong."""
    document = load_config(Path(path), limit_bytes=MAX_PROJECT_BYTES, files=files)
    shape = _shape_of(document)
    for flaw in find_flaws(shape, document.value):
        raise document.error(flaw.message, flaw.path, hint=flaw.hint)
    return _built(document, Path(path), files)


def _shape_of(document: Document) -> Record:
    """Whose file it is; one that does not say is ours, so that the error says what to write."""
    value = document.value
    if not isinstance(value, dict):
        said = "the file is empty" if value is None else f"expected a mapping, got {describe(value)}"
        raise document.error(said, hint="Begin with `replaykit: 1`; or run `replaykit init`.")
    version = value.get("replaykit")
    if type(version) is int and version > PROJECT_FORMAT:
        raise FormatTooNew(
            f"{document.file}: configuration format {describe(version)}, this version reads up to {PROJECT_FORMAT}"
        )
    return FLAKESTORM if "version" in value and "replaykit" not in value else PROJECT


def _built(document: Document, file: Path, files: ConfigFiles) -> Project:
    value: dict[str, Json] = {key: part for key, part in document.value.items() if part is not None}
    replays, advanced = value.get("replays", {}), value.get("advanced") or {}
    agent = value.get("agent")
    cases = value.get("cases", ())
    variables = value.get("variables")
    return Project(
        file=file,
        files=files,
        variables=None if variables is None else tuple(variables),
        agent=None if agent is None else agent_of(agent, retries=advanced.get("retries", 0)),
        inputs=tuple(value.get("inputs") or value.get("golden_prompts") or ()),
        cases=tuple(file.parent / name for name in ([cases] if isinstance(cases, str) else cases)),
        contracts={contract.name: contract for contract in _contracts(value)},
        chaos=plan_of(value["chaos"], seed=advanced.get("seed") or 0) if "chaos" in value else None,
        mutations=_mutations(document, value["mutations"]) if "mutations" in value else None,
        sessions=tuple(_sessions(document, replays.get("sessions") or ())),
        sources=tuple(map(source_of, replays.get("sources") or ())),
        models=ModelMode(replays.get("models", ModelMode.RECORDED)),
        scoring=_scoring(value.get("scoring", {})),
        judge=judge_spec_of(value["judge"]) if "judge" in value else None,
        checks=tuple(parse_assertion(kind, said) for item in value.get("checks", ()) for kind, said in item.items()),
        retention=policy_of(value.get("retention", {})),
        min_score=value.get("ci", {}).get("min_score"),
        concurrency=advanced.get("concurrency"),
        seed=advanced.get("seed"),
        notices=tuple(_notices(document, value)),
    )


def _contracts(value: dict[str, Json]) -> Iterator[Contract]:
    """The contracts of the file; a matrix beside them is that of each that has none."""
    found = [value["contract"]] if "contract" in value else []
    many = value.get("contracts", ())
    found += [{"name": name, **one} for name, one in many.items()] if isinstance(many, dict) else list(many)
    for one in found:
        yield contract_of({"chaos_matrix": value.get("chaos_matrix"), **one})


def _sessions(document: Document, values: Iterable[Json]) -> Iterator[Session | InvalidFile]:
    for index, value in enumerate(values):
        try:
            yield read_session(document, ("replays", "sessions", index), value=value)
        except InvalidFile as error:
            yield error


def _mutations(document: Document, value: Json) -> Mutations:
    """Of Flakestorm's block the count and the types are taken, and our own `by`."""
    from replaykit.chaos.mutations import KINDS  # noqa: PLC0415 (few configurations have mutations)
    from replaykit.chaos.wordings import WORDINGS  # noqa: PLC0415

    said = value if isinstance(value, dict) else {}
    count, by = said.get("count"), said.get("by")
    for flaw in find_flaws(MODEL, by, ("mutations", "by")) if by is not None else ():
        raise document.error(flaw.message, flaw.path, hint=flaw.hint)
    known = KINDS if by is None else tuple(WORDINGS)
    types = said.get("types") if isinstance(said.get("types"), list) else said.get("kinds")
    kinds = [FLAKESTORM_TYPES.get(kind, kind) for kind in types or () if isinstance(kind, str)]
    return Mutations(
        count=count if type(count) is int and 0 < count <= MAX_MUTATIONS else Mutations().count,
        kinds=tuple(dict.fromkeys(kind for kind in kinds if kind in known)),
        by=None if by is None else judge_spec_of(by),
    )


def _by_whom(value: dict[str, Json]) -> str:
    said = value["mutations"] if isinstance(value["mutations"], dict) else {}
    return "rules make them" if said.get("by") is None else "what the model wrote is looked up"


def _scoring(value: dict[str, Json]) -> Scoring:
    """Weights that are left out are 0 where some are given: what is not named does not count."""
    return Scoring(**{"mutation": 0.0, "chaos": 0.0, "contract": 0.0, "replay": 0.0, **value}) if value else Scoring()


def _notices(document: Document, value: dict[str, Json]) -> Iterator[str]:
    for key, why in LEFT_OUT.items():
        if key in value:
            yield f"{document.file}:{document.line((key,))}: `{key}` is not read: {why}"
    if "version" in value and "replaykit" not in value and "mutations" in value:
        line = document.line(("mutations",))
        yield f"{document.file}:{line}: of `mutations` the keys `count`, `types` and `by` are read: {_by_whom(value)}"
    if isinstance(value.get("agent"), dict) and "parse_structured_input" in value["agent"]:
        line = document.line(("agent", "parse_structured_input"))
        yield (
            f"{document.file}:{line}: `parse_structured_input` is not read: {{field}} in a template is a member of an "
            "input that is a mapping"
        )
