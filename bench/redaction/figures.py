"""Figures of one finder by kind, and for the tuning half what it missed and what it found wrongly."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from . import composed, corpus, hard_negatives, kinds, throughput
from .score import Find, Score, Tally, score

SYSTEMS = ("ours", "detect_secrets", "presidio", "scrubadub")


def report(find: Find, options: argparse.Namespace) -> str:
    """What the command prints."""
    if options.composed:
        return composed_report(options.half)
    if options.speed:
        return speed_report()
    samples = corpus.half(options.half)
    if options.kind:
        samples = [s for s in samples if not s.spans or any(span.kind == options.kind for span in s.spans)]
    result = score(find, samples)
    if options.json:
        return json.dumps(as_json(result), indent=2)
    return f"{table(result)}\n{misses(result)}" if options.misses else table(result)


def parse_arguments(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.redaction", description="Figures of one finder by kind.")
    parser.add_argument("--half", choices=corpus.HALVES, default=corpus.TUNING, help="which half (tuning)")
    parser.add_argument("--system", choices=SYSTEMS, default="ours", help="whose finder (ours)")
    parser.add_argument("--kind", metavar="KIND", help="only samples of this kind, and the harmless ones")
    parser.add_argument("--misses", action="store_true", help="what was missed and what was found wrongly, in full")
    parser.add_argument("--json", action="store_true", help="figures as JSON")
    parser.add_argument(
        "--composed",
        action="store_true",
        help="secrets inside of secrets, encoded, and 500 hard negatives (ours alone)",
    )
    parser.add_argument(
        "--speed", action="store_true", help="throughput of redaction beside one search with `re` (ours alone)"
    )
    options = parser.parse_args(arguments)
    if options.misses and options.half != corpus.TUNING:
        parser.error("--misses shows samples, and those of the held-out half stay unseen: use --half tuning")
    if options.misses and options.json:
        parser.error("--misses is text: leave out --json")
    known = sorted({span.kind for sample in corpus.corpus() for span in sample.spans})
    if options.kind and options.kind not in known:
        parser.error(f"no kind {options.kind!r}; there are {', '.join(known)}")
    return options


def composed_report(half: str) -> str:
    """How much of the composed values is gone, by encoding, and how many hard negatives are left alone."""
    from replaykit.redaction import Redactor

    redactor = Redactor(b"a key for the benchmark alone...")
    gone: dict[str, list[bool]] = {}
    for sample in composed.composed(half):
        is_gone = not sample.left_by(redactor.raw)
        gone.setdefault(sample.encoding, []).append(is_gone)
        gone.setdefault("= all", []).append(is_gone)
    lines = [f"{'composed, ' + half:<24}{'texts':>7}{'gone':>8}"]
    lines += [f"{name:<24}{len(seen):>7}{sum(seen) / len(seen):>8.3f}" for name, seen in sorted(gone.items())]
    quiet = [redactor.is_clean(text) for _, text in hard_negatives.hard_negatives()]
    lines += ["", f"{'hard negatives':<24}{len(quiet):>7}{sum(quiet) / len(quiet):>8.3f} left alone"]
    return "\n".join(lines)


def speed_report() -> str:
    """Megabytes a second of CPU for each class of text, and how many searches with a pattern take as long."""
    from replaykit.redaction import Redactor

    numbers = throughput.throughput(Redactor(b"a key for the benchmark alone...").raw)
    lines = [f"{'text':<24}{'MB/s':>8}{'× re':>8}"]
    for name in throughput.CLASSES:
        lines.append(f"{name:<24}{numbers[f'{name}_mb_s']:>8.1f}{numbers[f'{name}_searches']:>8.1f}")
    return "\n".join(lines)


def table(result: Score) -> str:
    lines = [f"{'kind':<20}{'spans':>7}{'found':>8}{'named':>8}{'covered':>9}"]
    for group in (kinds.SECRETS, kinds.CHECKED, kinds.PERSONAL):
        members = sorted(kind for kind in result.kinds if kinds.group(kind) == group)
        lines += [_recall(kind, result.kinds[kind]) for kind in members]
        lines += [_recall(f"= {group}", result.of_group(group)), ""]
    lines.append(f"{'finding says':<20}{'count':>7}{'right':>8}{'named':>8}")
    lines += [_precision(family, tally) for family, tally in sorted(result.families.items())]
    return "\n".join([*lines, _precision("= all", result.all)])


def _recall(name: str, tally: Tally) -> str:
    shares = f"{tally.recall:>8.3f}{tally.named_recall:>8.3f}{tally.covered_recall:>9.3f}"
    return f"{name:<20}{tally.spans:>7}{shares}"


def _precision(name: str, tally: Tally) -> str:
    return f"{name:<20}{tally.findings:>7}{tally.precision:>8.3f}{tally.exact_precision:>8.3f}"


def misses(result: Score) -> str:
    lines = [f"\nmissed: {len(result.missed)}"]
    for sample, span in result.missed:
        lines.append(
            f"\n{span.kind}  {sample.template}\n  {sample.text[span.start : span.end]!r}\n  in {sample.text!r}"
        )
    lines.append(f"\nfound wrongly: {len(result.alarms)}")
    for sample, found in result.alarms:
        lines.append(
            f"\n{found.family}  {sample.template}\n  {sample.text[found.start : found.end]!r}\n  in {sample.text!r}"
        )
    return "\n".join(lines)


def as_json(result: Score) -> dict[str, dict[str, dict[str, float]]]:
    spans = {
        name: {
            "spans": tally.spans,
            "found": tally.recall,
            "named": tally.named_recall,
            "covered": tally.covered_recall,
        }
        for name, tally in sorted(result.kinds.items())
    }
    findings = {
        name: {"count": tally.findings, "right": tally.precision, "named": tally.exact_precision}
        for name, tally in (*sorted(result.families.items()), ("all", result.all))
    }
    return {"kinds": spans, "findings": findings}
