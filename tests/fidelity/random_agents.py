"""Random concurrent agents, recorded and replayed: answers, branches and outcomes, in figures.

python -m tests.fidelity.random_agents unchanged COUNT SEED [SAFEGUARD]
python -m tests.fidelity.random_agents held_up COUNT SEED [SAFEGUARD]
python -m tests.fidelity.random_agents edited COUNT SEED
python -m tests.fidelity.random_agents program FILE

The first replays the very same programs, without a safeguard where one is named; the second does so after recordings
whose threads were held up; the third replays them with a call inserted, removed, moved or changed; the fourth tries one
program again, out of a failure that was reported.
"""

from __future__ import annotations

import faulthandler
import json
import os
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from tests.fidelity.execution import Execution, Failure
from tests.fidelity.parallel_agents import CURRENT, DONE
from tests.fidelity.programs import EDITS, Program, edited, planned, program_of, programs
from tests.fidelity.safeguards import HELD_UP, SAFEGUARDS

import replaykit as rk

APART_MS = 50.0
HANG_S = 30
LEFT_BEHIND_S = 5
REPORTED = 20
SHOWN = frozenset({"moved", "arguments", "repeated"})


@dataclass
class Figures:
    """What was counted, and the first failures."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[dict[str, Any]] = field(default_factory=list)
    is_grave: bool = False

    def add(self, others: Figures) -> None:
        """Add the figures of one program."""
        self.counts.update(others.counts)
        self.failures += others.failures[: REPORTED - len(self.failures)]

    def forgive(self) -> None:
        """Count what broke a law once, and never again, apart."""
        self.counts = Counter({name: count for name, count in self.counts.items() if not name.startswith("breach")})
        self.counts["broke a law only once"] = 1
        self.failures.clear()

    def fail(self, why: str, program: Program, *, may_be_chance: bool = False, **more: Any) -> None:
        """Count a breach of the law, and keep the program. `may_be_chance`: a busy machine alone may have caused it."""
        self.counts["breaches"] += 1
        self.is_grave = self.is_grave or not may_be_chance
        self.counts[f"breach: {why}"] += 1
        if len(self.failures) < REPORTED:
            self.failures.append({"why": why, "text": str(program), **more, "program": program.json()})

    def json(self) -> dict[str, Any]:
        """The figures as JSON."""
        return {"counts": dict(self.counts), "failures": self.failures}


class Laboratory:
    """Records programs into a store of its own, and replays them under another schedule."""

    def __init__(self, store: rk.Store, chance: random.Random) -> None:
        self.store = store
        self.chance = chance

    def record(self, program: Program) -> tuple[Execution, rk.TraceRun]:
        """Run the program for real."""
        execution = Execution(program, self._random())
        self._reschedule()
        before = set(threading.enumerate())
        try:
            with rk.record("random", input="go", store=self.store) as run:
                execution.agent()
        except Failure:
            pass
        _join_all_but(before)  # what they still do belongs to the recording
        return execution, self.store.load(run.id)

    def replay(self, program: Program, recorded: Execution, run: rk.TraceRun) -> tuple[Execution, rk.ReplayResult]:
        """Replay the program, which may have been edited since."""
        execution = Execution(program, self._random(), recorded)
        self._reschedule()
        return execution, rk.replay(run, execution.agent)

    def _reschedule(self) -> None:
        sys.setswitchinterval(self.chance.choice((1e-6, 1e-5, 1e-4, 5e-3)))

    def _random(self) -> random.Random:
        return random.Random(self.chance.random())


def _join_all_but(before: set[threading.Thread]) -> None:
    deadline = time.monotonic() + LEFT_BEHIND_S
    while set(threading.enumerate()) - before and time.monotonic() < deadline:
        time.sleep(0.002)


def kind_of(recorded: Execution) -> str:
    """`clear` when all moments that decided the recording were far enough apart on this machine, too; `disturbed` when
    the machine held it up for so long that even moments far apart may have changed places; else `close`."""
    plan = planned(recorded.program)
    drifts = [abs(recorded.took_ms - plan.ends_ms)]
    for moments, expected in ((recorded.began, plan.begins_ms), (recorded.ended, plan.part_ends_ms)):
        drifts += [abs(moment - expected[place]) for place, moment in moments.items() if place in expected]
    if recorded.held_up_ms >= APART_MS:
        return "disturbed"
    is_clear = plan.branch == recorded.branch and plan.closest_ms - 2 * max(drifts) >= APART_MS
    return "clear" if is_clear else "close"


def check_unchanged(laboratory: Laboratory, program: Program, figures: Figures) -> None:
    """The law for the very same program."""
    recorded, run = laboratory.record(program)
    replayed, result = laboratory.replay(program, recorded, run)
    verdict = result.verdict.value
    kind = kind_of(recorded)
    is_same = replayed.branch == recorded.branch
    absent = [finding.kind for finding in result.observed if not finding.holds]
    if kind == "clear" and is_same and verdict == "inconclusive" and absent == ["max_tool_calls"]:
        kind = "close"  # a call began in the very moment that a limit around it ran out, which no branch shows
    figures.counts.update(["agents", kind, verdict, f"{kind}: {verdict}"])
    figures.counts[f"{kind}: same branch"] += is_same
    figures.counts["answers"] += len(replayed.received)
    answers = {made[1:]: text for text, made in recorded.made.items()}
    asked = _answered_in(run)
    # A close call may take a program to a place that the recording never came to, or only when the run was over. The
    # tape has no answer for it there; one from elsewhere is shown, and the verdict is in doubt.
    beyond = [place for place in replayed.received if replayed.asked[place][1:] not in asked]
    figures.counts["beyond the recording, and shown"] += len(beyond)
    strange = [place for place in replayed.received if place not in beyond and not _is_own(place, replayed, answers)]
    displaced = [place for place in strange if _is_displaced(place, recorded, replayed, run, result)]
    figures.counts["displaced, and shown"] += len(displaced)
    wrong = [place for place in strange if place not in displaced]
    if len(beyond) > sum(deviation.kind in SHOWN for deviation in result.deviations):
        wrong += beyond
    figures.counts["wrong answers"] += len(wrong)
    seen = {
        "verdict": verdict,
        "recorded": recorded.branch,
        "replayed": replayed.branch,
        "reason": result.reason,
        "absent": absent,
    }
    if wrong:
        pair = [answers.get(replayed.asked[wrong[0]][1:]), replayed.received[wrong[0]]]
        figures.fail("wrong answer", program, place=wrong[0], answers=pair)
    elif replayed.live:
        figures.fail("ran for real", program, places=replayed.live)
    elif kind == "clear" and not (is_same and verdict == "reproduced"):
        figures.fail("clear, but not the same", program, may_be_chance=verdict != "fixed", **seen)
    elif kind == "disturbed" and verdict != "fixed":
        return
    elif verdict not in ("reproduced", "inconclusive") or (verdict == "reproduced" and not is_same):
        why = f"{kind}, and neither the same nor inconclusive"
        figures.fail(why, program, may_be_chance=verdict != "fixed", **seen)


def _answered_in(run: rk.TraceRun) -> set[tuple[str, str, int]]:
    """Return the calls of a recorded run that were answered: by causal path, argument, and number among equal ones."""
    counts: Counter[tuple[str, str]] = Counter()
    answered = set()
    for call in run.calls:
        asked = call.path, call.arguments["key"]
        counts[asked] += 1
        if call.complete:
            answered.add((*asked, counts[asked]))
    return answered


def _is_own(place: str, replayed: Execution, answers: dict[tuple[str, str, int], str]) -> bool:
    """True for an answer that was recorded for this very call: the n-th on its causal path with these arguments."""
    return answers.get(replayed.asked[place][1:]) == replayed.received[place]


def _is_displaced(
    place: str, recorded: Execution, replayed: Execution, run: rk.TraceRun, result: rk.ReplayResult
) -> bool:
    """True for the answer to an equal call, shown as moved, in a replay that has made more such calls than recorded.

    One that the recording never came to takes the answer of another place, and an equal call there gets the next one.
    """
    asked = replayed.asked[place]
    made = recorded.made.get(replayed.received[place])
    if made is None or made.key != asked.key:
        return False
    answered = _answered_in(run)
    if not any(other.key == asked.key and other[1:] not in answered for other in replayed.asked.values()):
        return False
    moves = [deviation.text for deviation in result.deviations if deviation.kind == "moved"]
    return any(text.endswith((f"now at {asked.path}", "to an equal call in another place")) for text in moves)


def check_edited(laboratory: Laboratory, program: Program, figures: Figures) -> None:
    """No wrong answer is served silently to an edited program."""
    recorded, run = laboratory.record(program)
    for edit in EDITS:
        changed = edited(program, edit, laboratory.chance)
        if changed is None:
            continue
        replayed, result = laboratory.replay(changed, recorded, run)
        figures.counts.update(["agents", f"{edit}: agents"])
        _compare_answers(recorded, replayed, result, changed, figures)


def _compare_answers(
    recorded: Execution, replayed: Execution, result: rk.ReplayResult, program: Program, figures: Figures
) -> None:
    shown = sum(deviation.kind in SHOWN for deviation in result.deviations)
    moved = []
    for place, text in replayed.received.items():
        made, asked = recorded.made.get(text), replayed.asked[place]
        if made is None:
            figures.fail("an answer that nobody gave", program, place=place, answer=text)
        elif made.key != asked.key:
            figures.fail("the answer to another question", program, place=place, answer=text)
        elif (made.path, made.count) != (asked.path, asked.count):
            moved.append(place)
    figures.counts["answers"] += len(replayed.received)
    figures.counts["exact"] += len(replayed.received) - len(moved)
    figures.counts["moved, and shown"] += min(len(moved), shown)
    figures.counts["not recorded, and stopped"] += len(replayed.misses)
    if len(moved) > shown:
        figures.fail("moved silently", program, may_be_chance=True, places=moved)
    if replayed.live:
        figures.fail("ran for real", program, places=replayed.live)


Check = Callable[[Laboratory, Program, Figures], None]


def checked_again(check: Check, laboratory: Laboratory, program: Program) -> Figures:
    """Check a program. One that broke a law by a red where there should be doubt, or by a move that is not shown, is
    tried twice more, since a busy machine may have had a part in it; a wrong green, the answer to another question or a
    live call counts at once."""
    first = Figures()
    check(laboratory, program, first)
    if first.counts["breaches"] and not first.is_grave:
        more = [Figures(), Figures()]
        for figures in more:
            check(laboratory, program, figures)
        if not any(figures.counts["breaches"] for figures in more):
            first.forgive()
    return first


@contextmanager
def _laboratory(what: str, number: int, directory: Path) -> Iterator[Laboratory]:
    with rk.Store.open(directory / "store.db") as store, ExitStack() as stack:
        if what != HELD_UP:
            yield Laboratory(store, random.Random(number))
            return
        from tests.fidelity.hold_ups import HoldingLaboratory, busy_machine  # it needs this module

        yield HoldingLaboratory(store, random.Random(number), stack.enter_context(busy_machine(number)))


def checked(what: str, count: int, number: int, directory: Path) -> Figures:
    """Check so many random programs, from a seed."""
    check, figures = CHECKS[what], Figures()
    current, done = directory / CURRENT, directory / DONE  # for whoever looks for a hang
    with _laboratory(what, number, directory) as laboratory:

        @seed(number)
        @settings(
            max_examples=count,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(programs())
        def each(program: Program) -> None:
            current.write_text(json.dumps(program.json()), encoding="utf-8")
            faulthandler.dump_traceback_later(HANG_S, exit=True)
            figures.add(checked_again(check, laboratory, program))
            faulthandler.cancel_dump_traceback_later()
            done.write_text(json.dumps(figures.json()), encoding="utf-8")

        each()
    return figures


CHECKS: dict[str, Check] = {"unchanged": check_unchanged, HELD_UP: check_unchanged, "edited": check_edited}


def main() -> None:
    """Do what the command line says, and print the figures."""
    what, *more = sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="fidelity-") as place:
        directory = Path(os.environ.get("FIDELITY_DIRECTORY", place))
        if what == "program":
            program = program_of(json.loads(Path(more[0]).read_text(encoding="utf-8"))["program"])
            figures = Figures()
            with rk.Store.open(directory / "store.db") as store:
                check_unchanged(Laboratory(store, random.Random()), program, figures)
        else:
            count, number, *safeguards = more
            for safeguard in safeguards:
                SAFEGUARDS[safeguard].patch()
            figures = checked(what, int(count), int(number), directory)
    print(json.dumps(figures.json()), flush=True)
    os._exit(0)  # threads that a program abandoned must not keep the process


if __name__ == "__main__":
    main()
