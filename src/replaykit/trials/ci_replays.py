"""The part of `ci` that replays: all cases and sessions of a project."""

from __future__ import annotations

import msgspec

from replaykit.cases.case import ReplayCase
from replaykit.cases.find import Unusable
from replaykit.errors import ExitCode
from replaykit.model.result import ReplayResult, Verdict
from replaykit.runners.many import replay_many
from replaykit.trials.ci_items import Crew, Ran, Setting, first_divergence, members_of
from replaykit.trials.ci_places import prove_command, replay_command
from replaykit.trials.ci_result import CiItem, Outcome, Part

_OUTCOMES = {
    Verdict.FIXED: Outcome.PASSED,
    Verdict.REPRODUCED: Outcome.FAILED,
    Verdict.BROKEN: Outcome.FAILED,
    Verdict.DIVERGED: Outcome.FAILED,
    Verdict.FLAKY: Outcome.FAILED,
    Verdict.INCONCLUSIVE: Outcome.ERROR,
}

UNPROVEN = "unproven"
"""The word for a replay that is `fixed` and rests on no red, where `--require-proof` asks for one."""

NOT_ISOLATED = "not isolated"
"""The word for a replay that is `fixed`, but less isolated than `--require-isolation` asks for."""


class Replays:
    """All cases and sessions."""

    part = Part.REPLAY

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self.count = len(setting.subjects)

    def run(self, crew: Crew) -> Ran:
        """Replay them all; what is wrong with one is one item."""
        setting = self._setting
        wrong = [subject.error for subject in setting.subjects if isinstance(subject, Unusable)]
        results = replay_many(
            setting.subjects,
            crew.candidate,
            evidence=None if setting.evidence is None else setting.evidence.root,
            jobs=min(crew.jobs, self.count),
            on_done=crew.on_done,
            on_wrong=wrong.append,
        )
        bad = {str(error) for error in wrong if error.exit_code is ExitCode.USAGE}
        items = [self._item(*pair, bad) for pair in zip(setting.subjects, results, strict=True)]
        passed = sum(item.outcome is Outcome.PASSED for item in items)
        failed = sum(item.outcome is Outcome.FAILED for item in items)
        return Ran(items, round(100 * passed / len(items), 2), round(100 * (len(items) - failed) / len(items), 2))

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
            **members_of(result.run),
        )
        if isinstance(subject, ReplayCase):
            scenario = subject.scenario
            item = msgspec.structs.replace(item, input_json=scenario.input_json, context_json=scenario.context_json)
        if item.unproven and self._setting.requires_proof:
            command = prove_command(self._setting.project, subject)
            return self._refused(item, subject, UNPROVEN, f"fixed, but {item.unproven}", command)
        required = self._setting.required_isolation
        if item.outcome is Outcome.PASSED and result.isolation.level.strength < required.strength:
            reason = f"fixed, but its isolation was {item.isolation}; `{required.value}` is required"
            notes = "; ".join(result.isolation.notes)
            return self._refused(item, subject, NOT_ISOLATED, f"{reason}\n{notes}", "replaykit doctor")
        if item.outcome is Outcome.PASSED:  # only what failed is looked up in its file: most do not
            return item
        where = self._setting.places.of_subject(subject)
        return msgspec.structs.replace(
            item,
            reason=result.reason or "; ".join(finding.text for finding in result.observed),
            expected_failure=result.expected_failure,
            divergence=first_divergence(result.deviations),
            failures=tuple(finding for finding in result.desired if not finding.holds),
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=replay_command(self._setting.project, subject),
            is_wrong_file=item.outcome is Outcome.ERROR and result.reason in bad,
        )

    def _refused(self, item: CiItem, subject: ReplayCase | Unusable, verdict: str, reason: str, command: str) -> CiItem:
        """An item that passed, where that is not enough."""
        where = self._setting.places.of_subject(subject)
        return msgspec.structs.replace(
            item,
            outcome=Outcome.FAILED,
            verdict=verdict,
            reason=reason,
            contract=where.contract,
            file=where.file,
            line=where.line,
            command=command,
        )
