"""What ReplayKit learns about this shop: a check, an assertion, a format, a judge, and a form of personal data."""

import re
from collections.abc import Iterator

import replaykit as rk
from replaykit.checks.questions import Question
from replaykit.checks.rule import ASSERTIONS, Rule, Seen
from replaykit.formats.core.registry import IMPORTERS
from replaykit.formats.core.source import Source
from replaykit.judges.judge import JUDGES
from replaykit.model.events import ToolCall
from replaykit.model.run import Origin, RunStatus, TraceRun
from replaykit.model.values import canonical
from replaykit.redaction.finders import register_finder


def charged_once(run: TraceRun, tool: str = "charge_card") -> bool | str:
    times = sum(call.name == tool for call in run.tool_calls)
    return times == 1 or f"{tool} was called {times} times"


rk.register_check("charged_once", charged_once)


@ASSERTIONS.register("names_the_order")
class NamesTheOrder(Rule, frozen=True, kw_only=True):
    """The answer names this order."""

    plain = "order"
    order: str

    def seen_in(self, run: TraceRun) -> Seen:
        return Seen(
            holds=self.order in str(run.output),
            text=f"Order {self.order}",
            expected=f"an answer that names {self.order}",
            actual=str(run.output),
        )


class ShopLog:
    """Reads the shop's own log: the word SHOPLOG, and then a line for each order: its number, its tools, its error."""

    name = "shop_log"
    title = "The shop's log"

    def recognises(self, source: Source) -> bool:
        return source.text.startswith(b"SHOPLOG")

    def read(self, source: Source) -> Iterator[TraceRun]:
        for line in source.text.decode().splitlines()[1:]:
            order, tools, error = line.split(";")
            calls = []
            for seq, tool in enumerate(tools.split(",")):
                calls.append(ToolCall(seq=seq, name=tool, arguments_json=canonical({}), result_json=canonical("done")))
            yield TraceRun(
                id=order,
                name="shop",
                status=RunStatus.ERROR if error else RunStatus.SUCCESS,
                origin=Origin(kind="imported", format=self.name),
                events=tuple(calls),
            )


IMPORTERS.register(ShopLog.name)(ShopLog())


@JUDGES.register("shop_judge")
def shop_judge(question: Question) -> bool:
    return "sorry" in str(question.output).lower()


def customer_numbers(text: str) -> Iterator[tuple[int, int]]:
    """Find customer numbers: six digits whose sum is divisible by seven, which no pattern can say."""
    for found in re.finditer(r"\bC-(\d{6})\b", text):
        if sum(map(int, found[1])) % 7 == 0:
            yield found.span()


register_finder("customer-number", customer_numbers)
