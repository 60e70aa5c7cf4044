"""The results that commands print with `--json`, by name: each has a type, and the type has a JSON Schema.

The name of a result is `result.` and the words of its command; a further word where a flag makes the command print
something else.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import NamedTuple

from replaykit.documents.struct_schema import result_schema
from replaykit.model.values import JsonObject


class ResultType(NamedTuple):
    """One result."""

    command: str
    """The words of the command that prints it."""
    home: str
    """The module of its type, and the name of the type there."""
    when: str = ""
    """When the command prints it; empty for its usual result."""
    word: str = ""
    """The last word of its name, where the command prints several results."""

    @property
    def name(self) -> str:
        """Its name: `result.store.stats`."""
        return ".".join(("result", *self.command.split(), *self.word.split()))

    @property
    def title(self) -> str:
        """The command line that prints it."""
        if self.when:
            return f"replaykit {self.command} --json, {self.when}"
        return f"replaykit {self.command} --json"

    def schema(self) -> JsonObject:
        """Return its JSON Schema."""
        module, _, type_name = self.home.partition(":")
        type_ = getattr(import_module(f"replaykit.{module}"), type_name)
        return result_schema(type_, name=self.name, title=self.title)


_TABLE = (
    ResultType("record", "report.recordings:RecordedRuns"),
    ResultType("mcp", "report.servers:McpListening", "with --http"),
    ResultType("import files", "intake.entries:ImportResult"),
    ResultType("import langsmith", "intake.entries:ImportResult"),
    ResultType("import langfuse", "intake.entries:ImportResult"),
    ResultType("import phoenix", "intake.entries:ImportResult"),
    ResultType("import mlflow", "intake.entries:ImportResult"),
    ResultType("import sources", "intake.entries:ImportResult"),
    ResultType("serve", "report.servers:ReceiverLine", "each line"),
    ResultType("export", "report.exports:ExportedRun", "with -o"),
    ResultType("export", "report.exports:ExportedFailures", "with --from-report", "failures"),
    ResultType("scaffold", "report.cases:NewCase"),
    ResultType("lint", "report.cases:LintProblems"),
    ResultType("lint", "report.upgrades:UpgradedCases", "with --upgrade", "upgrade"),
    ResultType("replay", "report.replays:ReplayResults"),
    ResultType("retape", "report.retapes:RetapedCases"),
    ResultType("retape", "report.golden:GoldenUpdates", "of golden traces", "golden"),
    ResultType("prove", "report.replays:ReplayResults"),
    ResultType("golden", "report.golden:GoldenReport"),
    ResultType("judge", "report.judgements:JudgedCase"),
    ResultType("judge review", "report.judgements:JudgedCase"),
    ResultType("contract run", "contracts.score:ContractResult"),
    ResultType("contract score", "report.contract:ContractScore"),
    ResultType("contract lint", "report.cases:LintProblems"),
    ResultType("chaos run", "report.chaos:ChaosReport"),
    ResultType("chaos profiles", "report.chaos:ChaosProfiles"),
    ResultType("chaos mutate", "report.chaos:MutatedInputs"),
    ResultType("chaos mutate", "report.chaos:MutationReport", "with --run", "score"),
    ResultType("ci", "trials.ci_result:CiResult"),
    ResultType("ci merge", "trials.ci_result:CiResult"),
    ResultType("runs", "report.runs:RunList"),
    ResultType("show", "model.run:RunFile"),
    ResultType("show", "report.runs:EventList", "with --step or --event", "events"),
    ResultType("show", "report.runs:StepState", "with --step and --state", "state"),
    ResultType("show", "report.forks:Checkpoints", "with --steps", "steps"),
    ResultType("show", "report.forks:RunTree", "with --forks", "forks"),
    ResultType("view", "report.servers:ViewerListening"),
    ResultType("view", "report.servers:SharedFile", "with --share", "share"),
    ResultType("resume", "travel.fork:ForkResult"),
    ResultType("fork", "travel.fork:ForkResult"),
    ResultType("compare", "travel.compare_result:Comparison"),
    ResultType("redact", "report.leaks:RedactionReport"),
    ResultType("redact scan", "report.leaks:ScanReport"),
    ResultType("init", "report.project:NewProject"),
    ResultType("doctor", "report.doctor:DoctorReport"),
    ResultType("examples", "report.examples:ExampleList"),
    ResultType("examples copy", "report.examples:CopiedExample"),
    ResultType("store stats", "retention.stats:Stats"),
    ResultType("store verify", "report.retention:StoreHealth"),
    ResultType("store verify", "store.repair.salvage:Salvaged", "with --repair", "repair"),
    ResultType("store prune", "retention.prune:PruneResult"),
    ResultType("store keep", "report.retention:TaggedRuns"),
    ResultType("store backup", "report.retention:CopiedStore"),
    ResultType("store restore", "report.retention:CopiedStore"),
    ResultType("help assertions", "report.assertions:AssertionKinds"),
    ResultType("help formats", "report.formats:TraceFormats"),
    ResultType("help schema", "report.schemas:SchemaList", "without a NAME"),
)

RESULTS: Mapping[str, ResultType] = {result.name: result for result in _TABLE}
"""Every result by its name."""
