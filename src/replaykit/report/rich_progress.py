"""A line of progress, laid out by rich. Imported by a progress line that is drawn, and by nothing else."""

from __future__ import annotations

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
from rich.style import Style
from rich.text import Text

from replaykit.report.rich_layout import marked_lines

_LEAST_BAR = 2
"""A bar for one step would only ever be empty."""
_MOST_WIDTH = 100


class ProgressLine:
    """A spinner, what is done, a bar, the count, the rate and the time left."""

    def __init__(self, label: str) -> None:
        self._spinner = SpinnerColumn(style=_CYAN)
        self._label = _LabelColumn(label)
        self._bar = BarColumn(None, style=_DIM, complete_style=_CYAN, finished_style=_CYAN)
        self._figures = _FiguresColumn()
        self._progress = Progress(auto_refresh=False)
        self._task = self._progress.add_task("", total=None)

    def text(self, done: int, total: int | None, width: int) -> str:
        """Return the line, with marks; its estimate rests on the times at which this was called."""
        self._progress.update(self._task, completed=done, total=total)
        self._progress.expand = total is not None and total >= _LEAST_BAR
        bar = (self._bar,) if self._progress.expand else ()
        self._progress.columns = (self._spinner, self._label, *bar, self._figures)
        return marked_lines(self._progress.get_renderable(), min(width, _MOST_WIDTH))[0]


_CYAN, _DIM = Style(color="cyan"), Style(dim=True)


class _LabelColumn(ProgressColumn):
    """The words of the job."""

    def __init__(self, label: str) -> None:
        self._text = Text(label)
        super().__init__()

    def render(self, task: Task) -> Text:
        return self._text


class _FiguresColumn(ProgressColumn):
    """`1,234/10,000  512/s  0:17 left`; without a total, the time that has passed."""

    def render(self, task: Task) -> Text:
        figures = []
        if task.total is not None:
            figures.append(f"{int(task.completed):,}/{int(task.total):,}")
        elif task.completed:
            figures.append(f"{int(task.completed):,}")
        if task.completed and task.elapsed:
            figures.append(_rate(task.completed / task.elapsed))
        if task.time_remaining:
            figures.append(f"{_clock(task.time_remaining)} left")
        else:
            figures.append(_clock(task.elapsed or 0))
        return Text("  ".join(figures))


def _rate(per_second: float) -> str:
    if per_second < 1:
        return f"{per_second * 60:.1f}/min"
    return f"{per_second:,.0f}/s"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02}:{seconds:02}"
    return f"{minutes}:{seconds:02}"
