"""What keeps a green result honest, and how to take each part of it away: in these tests only.

Without a safeguard, somebody must notice: an agent of the collection, a candidate of another kind (`false_fixes`), or
the random agents. Otherwise nobody would see if the safeguard went missing from the product.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

RANDOM = "random"
FALSE_FIXES = "false_fixes"
HELD_UP = "held_up"

_real_urandom = os.urandom  # a run that holds chance replaces it


@dataclass(frozen=True)
class Safeguard:
    """A safeguard: what it is for, what takes its place, and who notices."""

    purpose: str
    patches: Mapping[str, Any]
    """What is put in the place of `module:function` or `module:Class.attribute`."""
    noticed_by: tuple[str, ...]
    """Agents of the collection that must break the law without it, or `random`, `held_up` and `false_fixes`."""

    @property
    def exists(self) -> bool:
        """True when the product has everything that is patched."""
        return all(_found(target) is not None for target in self.patches)

    def patch(self) -> None:
        """Take the safeguard away from this process."""
        for target, new in self.patches.items():
            found = _found(target)
            if found is None:
                raise LookupError(f"there is no {target}")
            owner, name = found
            if isinstance(owner, ModuleType):
                _replace_everywhere(getattr(owner, name), new)
            else:
                setattr(owner, name, new)


def _found(target: str) -> tuple[Any, str] | None:
    """Whoever owns what is patched, and its name there; None where the product has no such thing."""
    module_name, _, path = target.partition(":")
    try:
        owner: Any = importlib.import_module(f"replaykit.{module_name}")
    except ModuleNotFoundError:
        return None
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part, None)
    return (owner, name) if hasattr(owner, name) else None


def _replace_everywhere(original: Any, new: Any) -> None:
    """Put another object in the place of this one, in every module of the product that names it."""
    for name, module in list(sys.modules.items()):
        if name == "replaykit" or name.startswith("replaykit."):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, new)


def _plain_error(*given: Any) -> BaseException:
    """An exception of no class in particular, in the place of the recorded one."""
    info = next(value for value in given if hasattr(value, "message"))
    return RuntimeError(info.message)


def _always(value: Any) -> Callable[..., Any]:
    return lambda *_, **__: value


def _property(value: Any) -> property:
    return property(_always(value))


SAFEGUARDS = {
    "causal paths": Safeguard(
        "equal calls of different tasks and threads get their own answers",
        {"seam.scope:Scope.job": lambda scope, _name: scope},
        (RANDOM,),
    ),
    "guard": Safeguard(
        "no connection is made that is not on the tape",
        {"seam.guard:Guard.forbids": _always(False)},
        (FALSE_FIXES,),
    ),
    "exceptions": Safeguard(
        "a tool's exception comes back as its own class",
        {"seam.rebuild:Rebuilder.error": _plain_error},
        ("exceptions:caught_by_base_class", "exceptions:keyword_constructor", RANDOM),
    ),
    "values": Safeguard(
        "a tool's result comes back as its own class",
        {"seam.rebuild:Rebuilder._object": lambda _, content, _hint: content},
        ("values:enum_member", "values:pydantic_model", RANDOM),
    ),
    "values that cannot be rebuilt": Safeguard(
        "a stand-in for a value makes the verdict inconclusive",
        {
            "seam.rebuild:Rebuilder._missing": lambda _, content: content,
            "handlers.replay.tape:_unanswerable": _always(""),
        },
        ("values:opaque_object",),
    ),
    "changed arguments": Safeguard(
        "a tool that changes its arguments is known not to be repeatable",
        {"seam.tool:_Live._mutated_arguments": _always(())},
        ("values:mutated_argument",),
    ),
    "changed surroundings": Safeguard(
        "a tool that changes its object, its module or its context is known not to be repeatable",
        {"seam.tool:_Live._changes": _always(()), "seam.side_effects:changed_variables": _always(())},
        ("leftovers:object_of_a_tool", "leftovers:global_of_a_tool", "leftovers:context_of_a_tool"),
    ),
    "what the agent reads": Safeguard(
        "a list or an object that a tool changes is compared where the agent's own code reads it",
        {"seam.agent_code:AgentCode._reads": _always(False)},
        ("tool_state:module_memory", "tool_state:closure_list", "tool_state:history_of_a_field"),
    ),
    "emissions": Safeguard(
        "log records and warnings of a tool that the agent takes in are known not to be repeatable",
        {"seam.emissions:_note": _always(None)},
        ("tool_state:records_of_a_tool", "tool_state:warnings_of_a_tool"),
    ),
    "changed process": Safeguard(
        "a tool that changes variables or the working directory of its process is known not to be repeatable",
        {"seam.side_effects:still_changed": _always(())},
        ("leftovers:variable_of_a_tool", "leftovers:directory_of_a_tool"),
    ),
    "changed files": Safeguard(
        "a candidate that reads a file as the recorded run left it is in doubt",
        {"seam.changed_files:LeftoverWatch.reads": _always(None)},
        ("leftovers:counter_file", "leftovers:lock_file", "leftovers:file_of_a_tool"),
    ),
    "order and time": Safeguard(
        "a served call ends in its recorded place and at its recorded time",
        {"handlers.replay.order:RecordedOrder.is_known": _property(False)},
        ("timeouts:future_result", "deadlines:monotonic_deadline", RANDOM),
    ),
    "alarms": Safeguard(
        "an alarm rings at its moment in the run",
        {"seam.virtual_alarms:Alarms._clock": _always(None)},
        ("timeouts:alarm_that_sets_a_flag", "timeouts:alarm_in_whole_seconds"),
    ),
    "computing": Safeguard(
        "what an agent sees on the clock after it has computed is in doubt",
        {"handlers.replay.order:RecordedOrder._note_gap": _always(None)},
        ("deadlines:computing_after_the_last_call", "deadlines:computing_between_two_calls"),
    ),
    "hold-ups": Safeguard(
        "moments are too close to call where the machine held up the recorded run for longer than they are apart",
        {"seam.scheduling_delays:HoldUps._note_of": _always(None)},
        (HELD_UP,),
    ),
    "forms of placeholders": Safeguard(
        "a placeholder has the form of the value that it stands for",
        {"redaction.forms:formed": _always(None)},
        ("redaction:email_in_the_input", "redaction:luhn_of_a_card"),
    ),
    "processes": Safeguard(
        "processes that the agent starts are a part of the run",
        {"seam.scope:RunSession.tree": _always(None)},
        ("processes:spawned_pool", "processes:child_process"),
    ),
    "foreign threads": Safeguard(
        "a thread that was there before the run, and works for it, is a part of it",
        {"seam.foreign_threads:adopted": lambda scope, _what: scope},
        ("threads:worker_started_at_import", "threads:low_level_thread"),
    ),
    "chance": Safeguard(
        "random numbers and ids of the recording are drawn again",
        {"seam.chance:HeldChance._digest": lambda *_: _real_urandom(16)},
        ("chance:shuffled", "chance:uuid4_in_argument"),
    ),
    "evidence": Safeguard(
        "a candidate that used none of the recorded answers is not judged",
        {"model.result:Evidence.suffices": _property(True)},
        (FALSE_FIXES,),
    ),
    "divergence": Safeguard(
        "a candidate that left the recorded world is not judged",
        {"checks.verdict:first_with": _always(None)},
        (FALSE_FIXES,),
    ),
}
