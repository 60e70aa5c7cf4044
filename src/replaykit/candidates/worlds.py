"""The world of a case: what a Python candidate is given."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from replaykit.cases.case import EVERY_TOOL, RECORDED, ReplayCase, Scenario
from replaykit.cases.case_shape import DEFAULT_TIMEOUT_S, ModelMode, parse_clock
from replaykit.cases.requests import refusal_text, refused_in
from replaykit.cases.takes import take_calls
from replaykit.errors import UsageError
from replaykit.handlers.replay.world import World
from replaykit.model.events import Call, LlmCall
from replaykit.model.faults import ChaosPlan
from replaykit.model.isolation import EVERYTHING, MODELS, NO_CONSENT, Consent
from replaykit.model.matching import MatchRules, ModelMatch, OnMiss, ToolMode
from replaykit.model.pins import HASHES, SETS, Clock, Pins, is_harmless
from replaykit.model.run import TraceRun
from replaykit.model.tool_errors import with_tool_errors
from replaykit.model.values import Json, Raw, raw


def world_of(case: ReplayCase, calls: Iterable[Call] | None = None) -> World:
    """Return the case's input, rules and calls, which are the fixtures unless `calls` is given.

    A case that asks for more than the user allows raises `UsageError`.
    """
    if refused := refused_in(case):
        raise UsageError(refusal_text(refused))
    recorded = calls_of(case) if calls is None else calls
    if case.scenario.tool_errors:
        recorded = with_tool_errors(recorded, dict(case.scenario.tool_errors))
    return World(
        case_id=case.id,
        input_json=case.scenario.input_json,
        context_json=case.scenario.context_json,
        calls=tuple(recorded),  # type: ignore[arg-type]
        rules=_with_model_match(case, _rules(case.scenario)),
        tools=dict(case.scenario.tools),
        models=ToolMode(case.scenario.models),
        pins=_pins(case),
        not_held=case.scenario.not_held,
        held_up_s=case.scenario.held_up_s,
        after_calls_s=case.scenario.after_calls_s,
        changed_files=case.scenario.changed_files,
        chaos=case.scenario.chaos,
        tie_picks=case.scenario.tie_picks,
        notes_sources=case.scenario.notes_sources,
        source_format=case.source.format or "",
        run_id=case.source.run,
        writable=case.scenario.consent.write,
    )


def _with_model_match(case: ReplayCase, rules: MatchRules) -> MatchRules:
    """Compare models of a retaped case the way its recorded take does.

    For an imported trace, only messages and tools count. A new take holds the complete request of a live model, and
    SDKs send different parameters to a gateway than to the vendor.
    """
    if rules.model is not None or case.scenario.take == RECORDED:
        return rules
    models = [call for call in take_calls(case, RECORDED) if isinstance(call, LlmCall)]
    if all(call.wire is not None for call in models):
        return rules
    return replace(rules, model=ModelMatch.IGNORE)


def calls_of(case: ReplayCase, held: Iterable[Raw] = ()) -> Iterable[Call]:
    """Return the calls of the case's take. Large values already `held` in memory are not read again."""
    return take_calls(case, case.scenario.take, held)


def _rules(scenario: Scenario) -> MatchRules:
    """Return the case's rules restricted to the consent: live calls on a miss, and reachable addresses."""
    rules, consent = scenario.match, scenario.consent
    if consent.everything:
        return rules
    # Tools that are live by mode need no rule for misses, so the case's own rule stays.
    by_mode = _live_by_mode(scenario)
    granted = tuple(name for name in consent.live if name == EVERY_TOOL or name not in by_mode)
    rules = replace(rules, network=consent.connect)
    if not granted:
        return rules
    own = rules.live if rules.on_miss is OnMiss.LIVE else ()
    return replace(rules, on_miss=OnMiss.LIVE, live=tuple(dict.fromkeys((*own, *granted))))


def _live_by_mode(scenario: Scenario) -> list[str]:
    """Return the tools that the scenario always calls live, even if the tape holds an answer."""
    names = [name for name, mode in scenario.tools if mode is ToolMode.LIVE]
    if scenario.models is ModelMode.LIVE:
        return [*names, MODELS]
    return names


def without_live_misses(case: ReplayCase) -> ReplayCase:
    """Return the case with live calls on a miss turned off; the same case if there are none or they are not allowed."""
    scenario, consent = case.scenario, case.scenario.consent
    by_mode = _live_by_mode(scenario)
    if consent.everything or not consent.live or EVERY_TOOL in by_mode or refused_in(case):
        return case
    match = scenario.match
    if match.on_miss is OnMiss.LIVE:
        match = replace(match, on_miss=OnMiss.ERROR, live=())
    return with_scenario(case, match=match, consent=replace(consent, live=tuple(by_mode)))


def _pins(case: ReplayCase) -> Pins:
    """Return what the case freezes besides its calls."""
    scenario = case.scenario
    started_at, clock = _clock(case)
    allowed = {name: value for name, value in scenario.environment if is_harmless(name) or name in scenario.trusted}
    if scenario.draw and any(name in scenario.not_held for name in (HASHES, SETS)):
        allowed.setdefault("PYTHONHASHSEED", str(scenario.draw))
    return Pins(started_at=started_at, clock=clock, seed=scenario.seed, draw=scenario.draw, environment=allowed)


def left_unset(cases: Iterable[ReplayCase]) -> list[str]:
    """Return the variables with recorded values that the user has not allowed cases to set."""
    held = {name: name in _pins(case).environment for case in cases for name, _ in case.scenario.environment}
    return sorted(name for name, is_set in held.items() if not is_set)


def _clock(case: ReplayCase) -> tuple[float, Clock]:
    """Return the start time and kind of the clock. A clock without a start time starts when the source run did."""
    if case.scenario.clock is None:
        return 0.0, Clock.LIVE
    moment, clock = parse_clock(case.scenario.clock)
    if moment is not None:
        return moment.timestamp(), clock
    if clock is Clock.LIVE or case.trace_path is None:
        return 0.0, Clock.LIVE
    run = source_run(case)
    return 0.0 if run is None else run.started_at, clock


def with_pins(case: ReplayCase, *, pin: bool = True, trusted: Sequence[str] = ()) -> ReplayCase:
    """Return the case with further trusted variables, or with `pin=False` with nothing frozen at all."""
    if not pin:
        return with_scenario(case, clock=None, seed=None, environment=())
    return with_scenario(case, trusted=(*case.scenario.trusted, *trusted))


def with_take(case: ReplayCase, name: str, *, only: bool = False) -> ReplayCase:
    """Return the case with this take as its default or, with `only`, as its only one."""
    return with_scenario(case, take=name, is_only_take=only)


def with_chaos(case: ReplayCase, plan: ChaosPlan) -> ReplayCase:
    """Return the case with a plan's faults around the candidate, and its attacks in the input."""
    if plan.is_calm:
        return case
    from replaykit.handlers.chaos.attacks import attacked  # noqa: PLC0415 (few cases have chaos)

    scenario_input, names = attacked(case.scenario.input, plan)
    if names:
        return with_scenario(case, chaos=plan, input_json=raw(scenario_input))
    return with_scenario(case, chaos=plan)


class WorldOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Settings of the user for the worlds of all cases."""

    consent: Consent = NO_CONSENT
    take: str | None = None
    """The only take to serve."""
    is_pinned: bool = True
    """False if nothing is frozen."""
    trusted: tuple[str, ...] = ()
    """Variables that cases may set."""
    chaos: ChaosPlan = ChaosPlan()


def with_options(case: ReplayCase, options: WorldOptions) -> ReplayCase:
    """Return the case in the world that the options describe."""
    if options.take is not None:
        case = with_take(case, options.take, only=True)
    case = with_pins(with_consent(case, options.consent), pin=options.is_pinned, trusted=options.trusted)
    return with_chaos(case, options.chaos)


def live_case(scenario_input: Json, *, case_id: str = "live", timeout_s: float = DEFAULT_TIMEOUT_S) -> ReplayCase:
    """Return a case without a tape, in which everything is live."""
    scenario = Scenario(
        input_json=raw(scenario_input),
        tools=((EVERY_TOOL, ToolMode.LIVE),),
        models=ModelMode.LIVE,
        match=MatchRules(network=("*",)),
        timeout_s=timeout_s,
        consent=EVERYTHING,
    )
    return ReplayCase(id=case_id, scenario=scenario, tape=(), file_name="")


def with_consent(case: ReplayCase, consent: Consent) -> ReplayCase:
    """Return the case with an additional consent."""
    return with_scenario(case, consent=case.scenario.consent | consent)


def with_scenario(case: ReplayCase, **changes: Any) -> ReplayCase:
    """Return the case with changes to its scenario."""
    return replace(case, scenario=replace(case.scenario, **changes))


def source_run(case: ReplayCase) -> TraceRun | None:
    """Return the run that the case was made from, read from its source trace; None if there is none."""
    if case.trace_path is None:
        return None
    from replaykit.formats.files import import_trace  # noqa: PLC0415 (imports all formats, and few cases need it)

    runs = import_trace(case.trace_path, case.source.format).runs
    return next((run for run in runs if case.source.run in (None, run.id)), None)
