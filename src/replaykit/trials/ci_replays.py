"""The part of `ci` that replays: all cases and sessions of a project."""

from __future__ import annotations

import msgspec

from replaykit.candidates.many import replay_many
from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.errors import ExitCode
from replaykit.model.result import ReplayResult, Verdict
from replaykit.trials.ci_items import CiSettings, CiWorkers, PartResult, first_divergence, run_members
from replaykit.trials.ci_locations import prove_command, replay_command
from replaykit.trials.ci_result import CiItem, CiOutcome, CiPartName

_OUTCOMES = {
    Verdict.FIXED: CiOutcome.PASSED,
    Verdict.REPRODUCED: CiOutcome.FAILED,
    Verdict.BROKEN: CiOutcome.FAILED,
    Verdict.DIVERGED: CiOutcome.FAILED,
    Verdict.FLAKY: CiOutcome.FAILED,
    Verdict.INCONCLUSIVE: CiOutcome.ERROR,
}

UNPROVEN = "unproven"
"""The word for a replay that is `fixed` and rests on no red, where `--require-proof` asks for one."""

NOT_ISOLATED = "not isolated"
"""The word for a replay that is `fixed`, but less isolated than `--require-isolation` asks for."""


class ReplayPart:
    """All cases and sessions."""

    part = CiPartName.REPLAY

    def __init__(self, settings: CiSettings) -> None:
        self._settings = settings
        self.count = len(settings.subjects)

    def run(self, workers: CiWorkers) -> PartResult:
        """Replay them all; what is wrong with one is one item."""
        settings = self._settings
        wrong = [subject.error for subject in settings.subjects if isinstance(subject, Unusable)]
        results = replay_many(
            settings.subjects,
            workers.candidate,
            evidence=None if settings.evidence is None else settings.evidence.root,
            jobs=min(workers.jobs, self.count),
            on_done=workers.on_done,
            on_wrong=wrong.append,
        )
        bad = {str(error) for error in wrong if error.exit_code is ExitCode.USAGE}
        items = [self._item(*pair, bad) for pair in zip(settings.subjects, results, strict=True)]
        passed = sum(item.outcome is CiOutcome.PASSED for item in items)
        failed = sum(item.outcome is CiOutcome.FAILED for item in items)
        return PartResult(
            items, round(100 * passed / len(items), 2), round(100 * (len(items) - failed) / len(items), 2)
        )

    def _item(self, subject: ReplayCase | Unusable, result: ReplayResult, bad: set[str]) -> CiItem:
        item = CiItem(
            part=self.part,
            id=result.case_id,
            outcome=_OUTCOMES[result.verdict],
            verdict=result.verdict.value,
            duration_s=result.duration_s,
            evidence=result.directory or "",
            tape=result.evidence if result.evidence.recorded else None,
            offline=result.offline,
            isolation=result.isolation.level.value,
            file=str(subject.file),
            unproven=result.unproven,
            **run_members(result.run),
        )
        if isinstance(subject, ReplayCase):
            scenario = subject.scenario
            item = msgspec.structs.replace(item, input_json=scenario.input_json, context_json=scenario.context_json)
        if item.unproven and self._settings.requires_proof:
            command = prove_command(self._settings.project, subject)
            return self._refused(item, subject, UNPROVEN, f"fixed, but {item.unproven}", command)
        required = self._settings.required_isolation
        if item.outcome is CiOutcome.PASSED and result.isolation.level.strength < required.strength:
            reason = f"fixed, but its isolation was {item.isolation}; `{required.value}` is required"
            notes = "; ".join(result.isolation.notes)
            return self._refused(item, subject, NOT_ISOLATED, f"{reason}\n{notes}", "replaykit doctor")
        if item.outcome is CiOutcome.PASSED:  # only what failed is looked up in its file: most do not
            return item
        where = self._settings.places.of_subject(subject)
        return msgspec.structs.replace(
            item,
            reason=result.reason or "; ".join(finding.text for finding in result.observed),
            expected_failure=result.expected_failure,
            divergence=first_divergence(result.deviations),
            failures=tuple(finding for finding in result.desired if not finding.holds),
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=replay_command(self._settings.project, subject),
            is_wrong_file=item.outcome is CiOutcome.ERROR and result.reason in bad,
        )

    def _refused(self, item: CiItem, subject: ReplayCase | Unusable, verdict: str, reason: str, command: str) -> CiItem:
        """An item that passed, where that is not enough."""
        where = self._settings.places.of_subject(subject)
        return msgspec.structs.replace(
            item,
            outcome=CiOutcome.FAILED,
            verdict=verdict,
            reason=reason,
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=command,
        )
