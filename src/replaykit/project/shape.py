"""The shape of a configuration: `replaykit.yaml`, and the parts of `flakestorm.yaml` that apply here."""

from __future__ import annotations

from collections.abc import Iterable

from replaykit.cases.case_shape import AssertionShape, ModelMode
from replaykit.cases.chaos_shape import CHAOS, CHAOS_MATRIX
from replaykit.cases.session_shape import SESSION
from replaykit.contracts.shape import CONTRACT, CONTRACTS
from replaykit.documents.shape import (
    ANYTHING,
    SOME_TEXT,
    Choice,
    Flaw,
    Flaws,
    ListOf,
    Number,
    Record,
    Text,
    optional,
)
from replaykit.errors import nearest
from replaykit.judges.shape import JUDGE, MODEL
from replaykit.model.json_positions import DocumentPath
from replaykit.model.values import Json, JsonObject
from replaykit.project.agent import AGENT, MAX_RETRIES
from replaykit.project.sources import SOURCE
from replaykit.retention.policy import RETENTION

PROJECT_FORMAT = 1
"""Version of replaykit.yaml; readers accept every older one."""
MAX_CONCURRENCY = 256
MAX_SEED = 2**53  # larger integers lose digits in some JSON readers

LEFT_OUT = {
    "model": "name the model that writes mutations under `mutations`, as in `by: openai:gpt-4o-mini`",
    "invariants": "they are for mutations; those of a contract belong under `contract`",
    "output": "reports are asked for on the command line",
}
"""Blocks of flakestorm.yaml that are ignored, and why."""

FLAKESTORM_TYPES = {
    "noise": "typos",
    "tone_shift": "tone",
    "prompt_injection": "injection",
    "encoding_attacks": "unicode",
    "context_manipulation": "context",
    "length_extremes": "length",
    "language_mixing": "language_noise",
}
"""Flakestorm's names for our kinds of mutation; its other kinds are ignored."""

_VARIABLES = ListOf(Text("the name of a variable", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$(?!\n)"))


PLUGINS = ListOf(Text("the name of a module", pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$(?!\n)"))


class _VersionShape:
    """The version of the file, as a number or a text."""

    def __init__(self, *known: Json) -> None:
        self._known = known

    @property
    def expected(self) -> str:
        return f"the version {self._known[0]}"

    def fits(self, value: Json) -> bool:
        return not isinstance(value, bool) and value in self._known

    def flaws(self, value: Json, path: DocumentPath) -> Flaws:
        return iter(())

    def schema(self) -> JsonObject:
        return {"enum": list(self._known)}


SHARES = ("mutation", "chaos", "contract", "replay")


def _scoring_flaws(value: JsonObject) -> Flaws:
    if value.keys() == set(SHARES) and abs(sum(value.values()) - 1) > 0.001:
        yield Flaw((), "bad-value", f"scoring: the weights add up to {sum(value.values()):g}, not to 1")
    if value and not sum(value.values()):
        yield Flaw((), "bad-value", "scoring: every weight is 0")


_SCORING = Record(dict.fromkeys(SHARES, Number(at_least=0, at_most=1)), cross=_scoring_flaws)

_REPLAYS = Record(
    {
        "sessions": optional(ListOf(SESSION)),
        "sources": optional(ListOf(SOURCE)),
        "models": Choice(ModelMode),
    },
    notes={
        "sessions": "Sessions, each written here or in a file of its own: file: PATH.",
        "sources": "Where to fetch more sessions.",
        "models": "live: call the agent's models for real, since sessions hold no model answers. To allow that, run"
        " it with: --live models.",
    },
)


def _check_kind(text: str) -> None:
    from replaykit.handlers.chaos.mutations import KINDS, WORDINGS  # noqa: PLC0415 (few projects mutate)

    known = dict.fromkeys((*KINDS, *WORDINGS))
    if text not in known:
        raise ValueError(f"no kind of mutation {text[:40]!r}; {nearest(text[:40], known)}")


def _kinds_flaws(value: JsonObject) -> Flaws:
    """Yield a flaw for each kind that the rules, or the model, cannot produce."""
    from replaykit.handlers.chaos.mutations import KINDS, WORDINGS  # noqa: PLC0415 (few projects mutate)

    by_model = "by" in value
    known = list(WORDINGS) if by_model else list(KINDS)
    for index, kind in enumerate(value.get("kinds", ())):
        if kind not in known:
            who = "a model writes" if by_model else "rules make"
            message = f"no kind of mutation {kind!r} that {who}; {nearest(kind, known)}"
            if by_model:
                hint = ""
            else:
                hint = "Name the model that writes it: `by: openai:MODEL`."
            yield Flaw(("kinds", index), "bad-value", message, hint)


MAX_MUTATIONS = 1000
_MUTATIONS = Record(
    {
        "count": Number(above=0, at_most=MAX_MUTATIONS, whole=True),
        "kinds": ListOf(Text("a kind of mutation", check=_check_kind)),
        "by": MODEL,
    },
    notes={
        "count": "How many for each input; default: 9.",
        "kinds": "Which kinds; default: all.",
        "by": "The model that wrote them; without it rules make them.",
    },
    cross=_kinds_flaws,
)

_ADVANCED = Record(
    {
        "concurrency": Number(above=0, at_most=MAX_CONCURRENCY, whole=True),
        "retries": Number(at_least=0, at_most=MAX_RETRIES, whole=True),
        "seed": optional(Number(at_least=0, at_most=MAX_SEED, whole=True)),
    }
)


def _names_flaws(value: JsonObject) -> Flaws:
    """Yield flaws for contracts of the same name, and for names that contradict their keys."""
    seen: set[str] = set()
    contracts = value.get("contracts")
    entries: Iterable[tuple[str | int, Json]] = (
        contracts.items() if isinstance(contracts, dict) else enumerate(contracts or ())
    )
    if value.get("contract"):
        seen.add(value["contract"]["name"])
    for key, contract in entries:
        name = contract.get("name", key)
        if isinstance(contracts, dict) and name != key:
            message = f"contracts.{key}: its name is {name!r}"
            yield Flaw(("contracts", key, "name"), "bad-value", message, "Remove the name: the key is its name.")
        if name in seen:
            yield Flaw(("contracts", key), "duplicate", f"two contracts are named {name!r}")
        seen.add(name)


PROJECT = Record(
    {
        "replaykit": _VersionShape(PROJECT_FORMAT),
        "agent": optional(AGENT),
        "variables": optional(_VARIABLES),
        "plugins": optional(PLUGINS),
        "inputs": optional(ListOf(ANYTHING)),
        "cases": optional(ListOf(SOME_TEXT), SOME_TEXT),
        "contract": optional(CONTRACT),
        "chaos_matrix": CHAOS_MATRIX,
        "contracts": optional(*CONTRACTS.shapes),
        "chaos": CHAOS,
        "mutations": optional(_MUTATIONS),
        "replays": optional(_REPLAYS),
        "scoring": optional(_SCORING),
        "judge": optional(*JUDGE.shapes),
        "checks": optional(ListOf(AssertionShape())),
        "retention": optional(RETENTION),
        "ci": optional(Record({"min_score": Number(at_least=0, at_most=100)})),
    },
    required=("replaykit",),
    notes={
        "replaykit": "The version of this format.",
        "agent": "The agent under test.",
        "variables": "Variables of the environment that ${NAME} may name; default: all, none with --untrusted.",
        "plugins": "Modules of your own that bring assertions, checks, trace formats, judges, finders or exporters.",
        "inputs": "Inputs for contracts that have no probes.",
        "cases": "Directories of cases and sessions.",
        "contract": "A contract.",
        "contracts": "Contracts: a list, or a map from names.",
        "chaos_matrix": "The worlds for contracts that name none themselves.",
        "chaos": "Faults for the agent's tools, models and context.",
        "mutations": "`ci` also sends variants of the inputs.",
        "replays": "Sessions.",
        "scoring": "What each part weighs in the overall score.",
        "judge": "The judge of questions that no assertion can check.",
        "checks": "Assertions that every session must satisfy, in addition to its contract.",
        "retention": "Which recorded runs stay, and which `replaykit store prune` deletes.",
        "ci": "What must be reached.",
    },
    cross=_names_flaws,
)

FLAKESTORM = Record(
    {
        "version": _VersionShape("2.0", 2.0),
        "agent": AGENT,
        "variables": optional(_VARIABLES),
        "contract": optional(CONTRACT),
        "chaos": CHAOS,
        "chaos_matrix": CHAOS_MATRIX,
        "replays": optional(_REPLAYS),
        "scoring": optional(_SCORING),
        "advanced": optional(_ADVANCED),
        "golden_prompts": optional(ListOf(SOME_TEXT)),
        "mutations": ANYTHING,
        **dict.fromkeys(LEFT_OUT, ANYTHING),
    },
    required=("version",),
)
