"""The argument parser that all commands share: help that keeps its line breaks and shows defaults."""

import argparse
from collections.abc import Callable
from typing import Any


class HelpFormatter(argparse.ArgumentDefaultsHelpFormatter, argparse.RawDescriptionHelpFormatter):
    """Keeps the line breaks of description and examples; adds the default to each option that has one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        shown = action.default is not None and action.default is not False
        return super()._get_help_string(action) if shown else action.help


class CommandParser(argparse.ArgumentParser):
    """A parser whose closing text may be made late.

    `closing` is called only when help is shown, so that a list of names may need slow imports.
    """

    def __init__(self, *args: Any, closing: Callable[[], str] | None = None, **kwargs: Any) -> None:
        kwargs.setdefault("formatter_class", HelpFormatter)
        super().__init__(*args, **kwargs)
        self._closing = closing

    def format_help(self) -> str:
        """The help text, with the closing text made now."""
        if self._closing is not None:
            self.epilog = self._closing()
        return super().format_help()
