"""A progress bar over several stages."""

import sys
from types import TracebackType

from tqdm import tqdm

PLAIN_INTERVAL = 5.0  # s between updates where nobody watches a terminal; a log file is not to fill up


class StepBar:
    """One bar on stderr over all steps, with the name of the stage under way."""

    def __init__(self, total: int, unit: str = "step") -> None:
        watched = sys.stderr.isatty()
        self._bar = tqdm(
            total=total,
            unit=unit,
            unit_scale=True,
            file=sys.stderr,
            ascii=None if watched else True,
            mininterval=0.1 if watched else PLAIN_INTERVAL,
            ncols=None if watched else 100,
        )
        self._end = 0

    def expect(self, steps: int) -> None:
        """Adds steps to the total, where it is not known from the start."""
        self._bar.total += steps
        self._bar.refresh()

    def stage(self, name: str, steps: int) -> None:
        """Begins a stage of `steps` steps; what the stage before did not report counts as done."""
        self._bar.update(self._end - self._bar.n)
        self._end += steps
        self._bar.set_description(name)

    def advance(self, steps: int) -> None:
        """Counts steps of the stage as done."""
        self._bar.update(steps)

    def __enter__(self) -> "StepBar":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self._bar.update(self._end - self._bar.n)
        self._bar.close()
