"""The documents that the server and shared files give to the page, as types.

A path in the docstring is the path of the document below `api/`. RUN is the address of a run: its id in the store,
`replay:NAME` for the run of a replay, or `case:NAME` for the run that a case was made from.
"""

# msgspec evaluates annotations. Written as text (`from __future__`), each would be compiled anew for every class.

from msgspec import Raw, Struct

from replaykit.model.result import Deviation, Finding, ReplayResult, SemanticCheck
from replaykit.model.run import RunHeader
from replaykit.model.values import ABSENT
from replaykit.travel.compare_result import Comparison
from replaykit.trials.ci_result import CiPart


class Totals(Struct, frozen=True, kw_only=True):
    """The figures of a run."""

    events: int = 0
    calls: int = 0
    errors: int = 0
    """Calls and other events that ended in an error."""
    input_tokens: int | None = None
    """None if no model call reported its tokens."""
    output_tokens: int | None = None
    cost_usd: float | None = None


class RunPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run without its events: `run/RUN`."""

    address: str
    header: RunHeader
    is_running: bool = False
    totals: Totals | None = None
    """None until all events were read once."""
    opens_at: int | None = None
    """The event at which the run went wrong; None if it did not."""
    why: str = ""
    """What went wrong there, in words."""
    remarks: tuple[str, ...] = ()
    """What a replay of this run would lack."""
    agent: str = ""
    """The agent that forks of this run would run; empty if none was named, or if the run is not in the store."""


class Row(Struct, frozen=True, array_like=True):
    """One event in the list of a run. Written as an array, because a run may have 100,000."""

    seq: int
    kind: str
    """`tool_call`, `llm_call`, `exchange`, `message`, `state`, `decision`, `error` or `note`."""
    title: str
    """What happened: `lookup(id=7)`, `gpt-5-mini 3 messages`, `user: Where is my order?`."""
    answer: str = ""
    """What came of it, on one line."""
    step: str = ""
    at_s: float | None = None
    """Seconds since the run began; None if unknown."""
    duration_s: float | None = None
    parent: int | None = None
    """The enclosing call."""
    marks: tuple[str, ...] = ()
    """`error`, `stream`, `cut` (the stream was left early), `fault`, `unanswered`, `state`."""
    tokens: int | None = None
    cost_usd: float | None = None


class RowBatch(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of `run/RUN/rows`. The last line has the page of the complete run, or a problem.

    Rows come in the order in which events were written: a call after the calls inside it. Their order on screen is that
    of `seq`.
    """

    rows: tuple[Row, ...] = ()
    page: RunPage | None = None
    problem: str = ""
    """Why the rest of the run cannot be read."""


class ConversationPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One piece of a message: words, a requested tool call, or a tool's answer."""

    kind: str
    """`text`, `reasoning`, `tool_call`, `tool_result` or `other`."""
    text: str = ""
    name: str = ""
    """The requested tool."""
    value: Raw = ABSENT
    """The arguments of a requested call, the answer of a tool, or content of another kind."""


class ConversationMessage(Struct, frozen=True, kw_only=True):
    """A message of a model's request, or its answer."""

    role: str
    parts: tuple[ConversationPart, ...]
    is_new: bool = True
    """False if the previous request of this conversation began with it as well."""


class ErrorPart(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An exception; its causes follow it in the list."""

    type: str
    message: str = ""
    traceback: str = ""
    relation: str = ""
    """`cause`, `context` or `member`; empty for the exception itself."""


class EventPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event in full: `run/RUN/event/SEQ`."""

    row: Row
    path: str = ""
    """The causal path."""
    conversation: tuple[ConversationMessage, ...] = ()
    """The messages of a model call's request; its answer is the last one, with the role `answer`."""
    options: Raw = ABSENT
    """The members of a model's request besides its messages."""
    tools: tuple[str, ...] = ()
    """The tools that a model was offered."""
    arguments: Raw = ABSENT
    result: Raw = ABSENT
    content: Raw = ABSENT
    """The content of a message, a decision or a note."""
    items: tuple[Raw, ...] = ()
    """The items of a stream."""
    pauses_ms: tuple[float, ...] = ()
    errors: tuple[ErrorPart, ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    """Everything else that is known: URL, HTTP status, finish reason, faults, arguments that the tool changed."""


class StatePage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent's state at an event: `run/RUN/state/SEQ`."""

    seq: int
    """The checkpoint that holds at the event."""
    step: str = ""
    state: Raw = ABSENT
    before: Raw = ABSENT
    """The state of the previous checkpoint; absent if there is none."""
    missing: str = ""
    """Why the state cannot be shown."""


class Occurrence(Struct, frozen=True, kw_only=True):
    """One place where a text occurs: `run/RUN/find?text=…`, at most 1,000 in the order of the run."""

    seq: int
    place: str
    """The member of the event's page, such as `result` or `conversation`."""
    path: str
    """The JSON path inside it, from `$`."""
    excerpt: str
    is_exact: bool = True
    """False if only case, spaces or the form of a number agree."""


class UngroundedFigure(Struct, frozen=True, kw_only=True):
    """A figure in the output that nothing in the run explains: `run/RUN/ungrounded`."""

    text: str
    reason: str


class ListedRun(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A run in a list."""

    id: str
    name: str = ""
    status: str = ""
    started_at: float = 0.0
    duration_s: float | None = None
    events: int | None = None
    line: str = ""
    """Input and output on one line."""
    forked_from: str = ""
    step: str = ""


class FamilyPage(Struct, frozen=True, kw_only=True):
    """A run and its forks as a tree: `run/RUN/family`."""

    run: ListedRun
    children: "tuple[FamilyPage, ...]" = ()


class ComparePage(Struct, frozen=True, kw_only=True):
    """Two runs side by side: `compare/RUN/RUN`."""

    a: RunPage
    b: RunPage
    comparison: Comparison


class ReplayPage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A replay and why it ended as it did: `replay/NAME`, the name of its evidence directory."""

    name: str
    result: ReplayResult
    """Without its runs: the run's address is `replay:NAME`."""
    run: str = ""
    """The address of the candidate's run; empty if it left none."""
    recorded: str = ""
    """The address of the recorded run, if the case is still there."""


class CasePage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A case beside the run that it was made from: `case/NAME`."""

    name: str
    title: str = ""
    path: str = ""
    text: str = ""
    """The case's own file."""
    observed: tuple[Finding, ...] = ()
    """Each failure signature, judged on the recorded run."""
    desired: tuple[Finding, ...] = ()
    semantic: tuple[SemanticCheck, ...] = ()
    deviations: tuple[Deviation, ...] = ()
    proof: str = ""
    """When the case was seen red and green, in words."""
    problems: tuple[str, ...] = ()


class SuiteRun(Struct, frozen=True, kw_only=True):
    """A run of a suite in the history."""

    at: float
    """When it began, in seconds since 1970; 0 if unknown."""
    revision: str = ""
    """The commit of the agent's code; empty if it is unknown."""


class SuiteItem(Struct, frozen=True, array_like=True):
    """One item of a suite. Written as an array, because a suite may have 20,000."""

    part: str
    id: str
    outcome: str
    """`passed`, `failed`, `error` or `untested`."""
    verdict: str
    reason: str
    """Why it did not pass, on one line."""
    duration_s: float
    cause: int | None
    """A number that items share if one fix may mend them; None if it passed."""
    replay: str
    """The name of the replay that left evidence; empty if there is none to show."""
    outcomes: str
    """The first letter of its outcome in each of the suite's `runs`; a dot where it did not run."""
    standing: str
    """`flaky`, `new`, `failing` or `fixed`; empty if it passes as before."""
    since: int | None
    """The index of the run since which it fails, or passes again; None if the history does not reach that far."""
    contract: str
    scenario: str
    """The scenario in which a contract was checked."""
    faults: int
    """The number of injected faults."""


class SuitePage(Struct, frozen=True, kw_only=True):
    """The results of `ci`: `suite/NAME`. `suite/NAME/item/INDEX` is an item in full, as in the JSON of `ci`."""

    name: str
    verdict: str
    passed: bool
    agent: str
    config: str
    config_from: str
    seed: int
    duration_s: float
    parts: tuple[CiPart, ...]
    runs: tuple[SuiteRun, ...]
    """The latest runs, the oldest first; the last one is this run."""
    items: tuple[SuiteItem, ...]
    notices: tuple[str, ...] = ()


class ListedSuite(Struct, frozen=True, kw_only=True):
    """A suite in a list."""

    name: str
    agent: str
    started_at: float
    items: int


class ListedReplay(Struct, frozen=True, kw_only=True):
    """A replay in a list."""

    name: str
    case_id: str
    verdict: str
    candidate: str = ""
    reason: str = ""


class ListedCase(Struct, frozen=True, kw_only=True):
    """A case in a list."""

    name: str
    title: str = ""


class Home(Struct, frozen=True, kw_only=True):
    """What there is to see: `home`, with `?q=` and `?status=` for the runs, and `?before=ID` for older ones."""

    project: str
    """The name of the project's directory."""
    opens: str = ""
    """The route that the command line asked for, such as `#/run/ID`."""
    can_fork: bool = False
    runs: tuple[ListedRun, ...] = ()
    has_more: bool = False
    cases: tuple[ListedCase, ...] = ()
    replays: tuple[ListedReplay, ...] = ()
    """The newest replays that left evidence."""
    suites: tuple[ListedSuite, ...] = ()
    """The newest results of `ci`."""


class ForkRequest(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the page sends to `fork`, by POST. The answer is a `travel.fork.ForkResult`.

    A deviation of the kind `undecided` is a question: may its tool, `name`, be called for real? With consent, the same
    request is sent again, with the tool in `live` and the new run as `attempt`, so that nothing is done twice.
    """

    run: str
    """The id of the run."""
    step: str
    """The step to go on from, by its name or number."""
    result: Raw = ABSENT
    """The new answer of the step's last call."""
    answer: Raw = ABSENT
    """The new answer of the step's last model call."""
    error: str = ""
    """The error that the step's last call fails with: `TYPE: MESSAGE`."""
    arguments: Raw = ABSENT
    """The new arguments of the step's last tool call, an object."""
    state: Raw = ABSENT
    """Keys to set in the state after the step, an object."""
    patch: Raw = ABSENT
    """A JSON Patch for the state."""
    input: Raw = ABSENT
    """The new input of the agent."""
    tool: str = ""
    """Which tool or model is changed, if the step calls several."""
    live: tuple[str, ...] = ()
    """The tools that the user allows to be called for real."""
    attempt: str = ""
    """The fork that stopped with a question."""


class PageProblem(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a request that fails, with HTTP status 400, 403, 404 or 500."""

    problem: str
    hint: str = ""
    """What to do next."""
