"""Names the module of each kind of assertion, so that a case imports only the modules of the kinds that it uses."""

from __future__ import annotations

_KINDS = {
    "outcome": ("status_is", "run.error", "run.failed_steps", "steps.exhausted"),
    "output": (
        "final_output_exists",
        "output.empty",
        "output.equals",
        "output.contains",
        "output.not_contains",
        "output.icontains",
        "output.error",
        "output.starts_with",
        "output.contains_all",
        "output.contains_any",
        "output.regex",
    ),
    "grounding": ("output.grounded",),
    "tool_contradictions": ("output.contradicts",),
    "answers": ("output.answer",),
    "stuck_agents": ("tool.stuck", "state.repeated"),
    "output_form": ("output.json", "output.json_schema", "output.json_path", "output.length", "output.finish_reason"),
    "output_similarity": ("output.edit_distance", "output.similar", "output.refusal"),
    "tools": ("max_tool_calls", "tool.calls", "tool.called", "tool.not_called"),
    "tool_args": ("tool.args", "tool.args_schema", "tool.result"),
    "tool_offers": ("tool.not_offered", "tool.invalid_arguments", "tool.only_announced", "tool.lookup_skipped"),
    "model_calls": (
        "llm.truncated",
        "llm.context_overflow",
        "llm.malformed_call",
        "llm.same_request",
        "llm.same_answer",
    ),
    "tool_errors": ("tool.error", "tool.unretried_error", "tool.ignored_error"),
    "trajectory": ("trajectory.match", "trajectory.f1"),
    "trajectory_order": ("trajectory.before", "trajectory.never_after", "trajectory.no_loop", "trajectory.allowlist"),
    "counts": ("steps.count", "llm.calls"),
    "states": ("state.equals", "state.path", "state.diff", "state.hash"),
    "effects": ("effect.exactly_once", "effect.none"),
    "budgets": ("budget.cost", "budget.tokens", "budget.latency"),
    "replays": ("replay.no_divergence", "replay.diverges_at"),
    "safety": ("safety.no_secret", "safety.no_pii"),
    "spans": ("span.exists", "span.count", "span.duration", "span.no_errors"),
    "judge_rules": ("judge.rubric", "judge.score", "judge.factual", "judge.faithful", "judge.label"),
    "custom": ("custom.python",),
    "combinators": ("not", "all", "any", "threshold"),
    "repeat_rule": ("repeat",),
}

KIND_MODULES = {kind: f"replaykit.checks.{module}" for module, kinds in _KINDS.items() for kind in kinds}
"""Every built-in kind, and the module that enters it."""
