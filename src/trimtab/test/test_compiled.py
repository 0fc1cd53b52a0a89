"""Compiled functions: nothing is compiled while a loop runs, and without a place to keep the code it still works."""

import subprocess
import sys

import numpy as np
import pytest

from trimtab.arm import load_arm
from trimtab.control import Desired, adaptive, compensators, make_controller
from trimtab.control.friction import FrictionModel
from trimtab.dynamics import RigidBody
from trimtab.reference import make_reference, trajectory
from trimtab.residual.offer import Offer
from trimtab.safety import kernels
from trimtab.step import ControlStep

MODULES = (adaptive, compensators, trajectory, kernels)


def compiled_for() -> dict[str, int]:
    """How many kinds of arguments each function has been compiled for."""
    functions = [(module, name) for module in MODULES for name in vars(module)]
    return {name: len(f.signatures) for module, name in functions if hasattr(f := getattr(module, name), "signatures")}


class Always:
    def reset(self) -> None:
        pass

    def offer(self, sample, classical, now) -> Offer:
        return Offer(0.01 * classical, 0.9, now)


@pytest.mark.parametrize("name", ["ur5e", "wam"])
def test_nothing_is_compiled_while_a_loop_runs(name: str) -> None:
    arm = load_arm(name)
    body, ones = RigidBody(arm), np.ones(arm.dof)
    friction = FrictionModel(arm.joints, ones, ones, ones, ones, ones)
    step = ControlStep(arm, body, make_controller("friction+adaptive+observer", arm, body, friction), residual=Always())
    before = compiled_for()
    assert sum(before.values()) >= 7, "those that the step itself calls"
    reference = make_reference("plum", body, 4.0)
    q, now = reference.q[0], 0.0
    for k in range(60):
        now += arm.period * (20 if k == 40 else 1)
        # Bases of arrays differ in a loop: fresh, views of messages, read-only ones.
        still = q.copy()
        still.flags.writeable = False
        moved = [q + 1e-5 * k, np.array([q, q])[0], still][k % 3]
        result = step.step(moved, 0.01 * ones, now)
        if k == 10:
            step.follow(reference, now)
        if k == 30:
            step.cancel()
    assert isinstance(result.desired, Desired)
    assert compiled_for() == before


def test_without_a_place_to_keep_the_code_it_is_made_anew() -> None:
    script = (
        "import numba.core.caching as c\n"
        "def nowhere(*_): raise RuntimeError('cannot cache function: no locator available')\n"
        "c.CacheImpl.__init__ = nowhere\n"
        "from trimtab.compiled import compiled\n"
        "print(compiled(lambda x: 2.0 * x)(3.0))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
    assert done.stdout == "6.0\n", done.stderr
