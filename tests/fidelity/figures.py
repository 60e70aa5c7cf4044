"""The figures that `make fidelity` prints, and whether a law is broken."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from tests.fidelity.false_fixes import EXPECTED
from tests.fidelity.harness import Trial
from tests.fidelity.parallel_agents import Tally

REPRODUCED_SHARE = 0.95
SHOWN = 5
"""Random agents that are printed when they break a law; all of them are left in files."""


def report_collection(trials: Sequence[Trial]) -> bool:
    """Print the figures of the collection; True when the law holds."""
    verdicts: dict[str, Counter[str]] = {}
    for trial in trials:
        counted = verdicts.setdefault(trial.way, Counter())
        counted.update(replay.verdict for replay in trial.replays)
        counted["no result"] += bool(trial.problem)
    words = sorted({word for counted in verdicts.values() for word in counted})
    print(f"\n{'way':<12}{'agents':>8}" + "".join(f"{word:>14}" for word in words))
    for way, counted in verdicts.items():
        agents = sum(trial.way == way for trial in trials)
        print(f"{way:<12}{agents:>8}" + "".join(f"{counted[word]:>14}" for word in words))
    return _told_apart(trials)


def _told_apart(trials: Sequence[Trial]) -> bool:
    broken = [trial for trial in trials if trial.breaches]
    replays = [replay for trial in trials for replay in trial.replays]
    verdicts = Counter(replay.verdict for replay in replays)
    live = sum(bool(replay.live) for replay in replays)
    share = verdicts["reproduced"] / max(1, len(replays))
    unsure = verdicts["inconclusive"] / max(1, len(replays))
    print(f"\n{len(replays)} replays: {share:.1%} reproduced, {unsure:.1%} inconclusive, {live} ran something for real")
    print(f"{len(broken)} breaches")
    return bool(replays) and not broken and _share_of_decidable(trials) >= REPRODUCED_SHARE


def _share_of_decidable(trials: Sequence[Trial]) -> float:
    """Print and return the share of `reproduced` among agents that a replay can tell of: those that depend on what the
    recording does not hold are declared `inconclusive`, and a breach where they are anything else."""
    decidable = [trial for trial in trials if trial.way not in trial.declared.get("inconclusive", {})]
    verdicts = [replay.verdict for trial in decidable for replay in trial.replays]
    share = verdicts.count("reproduced") / len(verdicts) if verdicts else 1.0
    print(f"{share:.1%} reproduced of the {len(verdicts)} replays that are not declared inconclusive")
    return share


def report_unchanged(found: Tally, what: str = "unchanged") -> bool:
    """Print the figures of the random agents; True when they keep the law."""
    counts = found.counts
    name = f"random agents, {what.replace('_', ' ')}"
    print(f"\n{name}: {counts['agents']}, {counts['answers']} answers, {counts['wrong answers']} wrong")
    kinds = {
        "clear": "deciding moments at least 50 ms apart",
        "close": "closer",
        "disturbed": "recorded while the machine was held up for 50 ms or more",
    }
    for kind, meaning in kinds.items():
        if agents := counts[kind]:
            same, unsure = counts[f"{kind}: same branch"] / agents, counts[f"{kind}: inconclusive"] / agents
            fixed = counts[f"{kind}: fixed"]
            words = f"{same:.2%} the same branch and outcome, {unsure:.2%} inconclusive, {fixed} fixed"
            print(f"  {agents:>6} {meaning}: {words}")
    beyond = "beyond the recording, and shown"
    print(f"  {counts[beyond]:>6} answers {beyond}")
    return _holds(found, what)


def report_edited(found: Tally) -> bool:
    """Print the figures of the edited agents; likewise."""
    counts = found.counts
    print(f"\nedited agents: {counts['agents']}, {counts['answers']} answers")
    for name in ("exact", "moved, and shown", "not recorded, and stopped"):
        print(f"  {counts[name]:>6} {name}")
    return _holds(found, "edited")


def _holds(found: Tally, what: str) -> bool:
    found.save(what)
    print(f"  {found.counts['broke a law only once']:>6} broke a law once, and kept it twice afterwards")
    print(f"  {found.counts['breaches']:>6} breaches")
    for name, number in found.counts.items():
        if name.startswith("breach: "):
            print(f"  {number:>6} {name.removeprefix('breach: ')}")
    for failure in found.failures[:SHOWN]:
        print(f"         {failure['why']}: {failure['text']}\n           {failure['file']}")
    return found.holds


def report_false_fixes(wrong: dict[str, str]) -> bool:
    """Print which candidates were misjudged; True when none was."""
    print(f"\nother candidates: {len(EXPECTED)}, {len(wrong)} with a wrong verdict")
    for name, word in wrong.items():
        print(f"  {name}: {word}, not {EXPECTED[name]}")
    return not wrong
