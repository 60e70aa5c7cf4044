"""The result of `ci` as one HTML page that loads and runs nothing; an agent's words are only text."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from itertools import count

from replaykit.cases.run_session import SeenCall
from replaykit.model.text_lines import cut
from replaykit.model.values import sayable
from replaykit.report.ci import item_lines, score_text
from replaykit.report.layout import counted
from replaykit.terminal import visible
from replaykit.trials.ci_result import CiItem, CiOutcome, CiResult, payload_text

_SHOWN_CHARS = 20_000
_OPEN = 20
_STYLE = """
:root { color-scheme: light dark; --line: #8884; --dim: #5f6872; --ok: #1a7f37; --bad: #cf222e; --odd: #9a6700; }
@media (prefers-color-scheme: dark) { :root { --dim: #9aa4af; --ok: #3fb950; --bad: #ff7b72; --odd: #d29922; } }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 64rem; padding: 0 1rem; }
body, summary, td { overflow-wrap: anywhere; }
h1 { font-size: 1.3rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
table { border-collapse: collapse; } th, td { padding: .15rem .9rem .15rem 0; text-align: left; vertical-align: top; }
thead th { border-bottom: 1px solid var(--line); } td.n, th.n { text-align: right; white-space: nowrap; }
details { border: 1px solid var(--line); border-radius: .4rem; margin: .6rem 0; padding: .4rem .8rem; }
details table { margin-top: .4rem; } details th { font-size: 13px; font-weight: normal; white-space: nowrap; }
summary { cursor: pointer; }
pre { font: 13px/1.5 ui-monospace, monospace; margin: 0; white-space: pre-wrap; max-height: 24rem; overflow: auto; }
.passed { color: var(--ok); } .failed { color: var(--bad); } .error, .untested { color: var(--odd); }
.dim { color: var(--dim); }
"""


def ci_html(result: CiResult) -> str:
    """The page."""
    word = "passed" if result.passed else "failed"
    failures = result.failures
    passed = [item for item in result.items if item.outcome is CiOutcome.PASSED]
    parts = [
        "<!doctype html>",
        '<html lang="en"><head><meta charset="utf-8">',
        """<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">""",
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>replaykit ci: {word}</title><style>{_STYLE}</style></head><body>",
        f'<h1>replaykit ci: <span class="{word}">{_text(result.verdict)}</span></h1>',
        f'<p class="dim">{_text(result.agent)} · {_text(result.config)} · seed {result.seed} · '
        f"{result.duration_s:.1f} s</p>",
        *_table(result),
    ]
    if failures:
        parts += ["<h2>What did not pass</h2>", *map(_item, failures, count())]
    if passed:
        parts.append(f"<h2>What passed</h2><details><summary>{counted(len(passed), 'run')}</summary><table>")
        for item in passed:
            parts.append(f"<tr><td>{item.part.value}</td><td>{_text(item.id)}</td></tr>")
        parts.append("</table></details>")
    return "\n".join([*parts, "</body></html>", ""])


def _table(result: CiResult) -> Iterator[str]:
    yield '<table><thead><tr><th>score of</th><th class="n">passed</th><th class="n">weight</th>'
    yield '<th class="n">score</th></tr></thead><tbody>'
    for part in result.parts:
        yield (
            f'<tr><td>{part.name}</td><td class="n">{part.passed} of {part.total}</td>'
            f'<td class="n">{part.weight:g}</td><td class="n">{score_text(part)}</td></tr>'
        )
    yield "</tbody></table>"


def _item(item: CiItem, number: int) -> str:
    head = f'<span class="{item.outcome.value}">{_text(item.verdict)}</span> {item.part.value} {_text(item.id)}'
    details = [*item_lines(item), ("output", payload_text(item.output_json))]
    details += [("tool", _call(call)) for call in item.calls]
    rows = "".join(_row(word, text) for word, text in details if text)
    is_open = " open" if number < _OPEN else ""
    return f"<details{is_open}><summary>{head}</summary><table>{rows}</table></details>"


def _row(word: str, text: str) -> str:
    return f'<tr><th class="dim">{word}</th><td><pre>{_text(text)}</pre></td></tr>'


def _call(call: SeenCall) -> str:
    how = ""
    if call.status is not None:
        how = f" answered {call.status}" if call.status else " gave no answer"
    first_line = f"{call.name}({payload_text(call.arguments_json)}){how} in {call.latency_ms:g} ms"
    return f"{first_line}\n{payload_text(call.response_json)}"


def _text(text: str) -> str:
    """A text as HTML; what would be invisible, or turn the writing around, is spelled out."""
    lines = sayable(cut(text, _SHOWN_CHARS)).split("\n")
    return "\n".join(map(escape, map(visible, lines)))
