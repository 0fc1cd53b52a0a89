"""Functions that numba turns into machine code: for loops over a few joints, where a call of numpy costs more than its work.

The code is kept on disk, so only the first run on a machine compiles; whoever is about to start a loop calls each function
once beforehand, with arguments of the types that will come. numba looks at a function's own file to tell whether the code is
still good: compiled functions that call each other stand in one file.

What a function remembers stands in tables of numbers whose rows have names. (Structured arrays would read better, but numba
0.68 was seen to run the code of one layout on another.)
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """Compiles a function; divisions by zero give what numpy gives."""
    try:
        return cast(F, njit(cache=True, error_model="numpy")(function))
    except RuntimeError:  # no place to keep the code: it is made anew by each process
        return cast(F, njit(error_model="numpy")(function))
