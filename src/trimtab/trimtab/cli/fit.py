"""`trimtab fit friction`: identifies an arm's joint friction from a bag."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trimtab.errors import LogError

if TYPE_CHECKING:
    from trimtab.bag import BagLog
    from trimtab.control.friction import FrictionModel
    from trimtab.dynamics import RigidBody
    from trimtab.typing import FloatArray

UNEVEN = 1.5  # a step longer than this many periods means that rows are missing

DESCRIPTION = """\
Identifies the friction of each joint from a bag: the rigid-body torque of the measured motion is taken off the
torque that was sent. To what is left in the rows in which the joint moves are fitted: Coulomb and viscous friction,
extra rotor inertia, a constant offset, and the speed over which the Coulomb torque changes sign (smoothing).

The bag must hold the joints' states and the torques sent, every joint moving both ways: record a sweep."""

EXAMPLES = """\
examples:
  trimtab run --reference sweep --duration 20 --plant worn --controller computed_torque+integral --out runs/sweep
  trimtab fit friction runs/sweep/bags/computed_torque+integral --arm ur5e
  trimtab run --plant worn --controller friction --friction friction-ur5e.yaml"""


def register(subparsers: Any) -> None:
    """Adds `trimtab fit`."""
    parser = subparsers.add_parser(
        "fit", help="identify what the controllers need to know", description="Identifies models from bags."
    )
    kinds = parser.add_subparsers(title="what to fit", metavar="WHAT", required=True)
    friction = kinds.add_parser("friction", help="joint friction", description=DESCRIPTION, epilog=EXAMPLES)
    friction.add_argument("bag", type=Path, metavar="BAG", help="folder of the bag, or its .mcap or .db3 file")
    friction.add_argument("--arm", required=True, help="a name that `trimtab arms` lists, or a contract's path")
    friction.add_argument("--out", type=Path, metavar="FILE", help="YAML file to write (default: friction-<arm>.yaml)")
    friction.add_argument("--states", default="/joint_states", metavar="TOPIC", help="sensor_msgs/JointState, measured")
    friction.add_argument(
        "--torques", default="/torque_command", metavar="TOPIC", help="sensor_msgs/JointState, effort sent, same stamps"
    )
    friction.set_defaults(command=_fit_friction)


def _fit_friction(arguments: argparse.Namespace) -> int:
    from trimtab.arm import load_arm
    from trimtab.bag import read_log
    from trimtab.control.friction import fit_friction
    from trimtab.dynamics import RigidBody

    arm = load_arm(arguments.arm)
    body = RigidBody(arm)
    log = read_log(arguments.bag, arm, states=arguments.states, torques=arguments.torques)
    for remark in remarks(log):
        print(remark)
    try:
        model = fit_friction(arm, body, log.t, log.q, log.qd, log.torque)
    except LogError as error:
        raise LogError(f"{arguments.bag}: {error}") from error
    print(friction_table(model, explained(body, log, model)))
    file = arguments.out or Path(f"friction-{arm.name}.yaml")
    model.save(file, arm.name, str(arguments.bag))
    print(f"\nwritten to {file}; use it with `trimtab run --arm {arguments.arm} --controller friction --friction {file}`")
    return 0


def remarks(log: "BagLog") -> list[str]:
    """What a user should know of a log before trusting a fit to it."""
    import numpy as np

    found = [f"{len(log.t)} rows over {log.t[-1]:.1f} s"]
    if log.dropped:
        found.append(f"left out {log.dropped} messages that had no partner of the same stamp")
    steps = np.diff(log.t)
    if len(steps) and steps.max() > UNEVEN * np.median(steps):
        found.append(f"warning: the log has gaps (longest {steps.max():.3f} s); velocities are differentiated across them")
    return found


def explained(body: "RigidBody", log: "BagLog", model: "FrictionModel") -> "FloatArray":
    """Share of each joint's unexplained torque (root mean square, while it moves) that the model explains.

    Shape (dof,), at most 1.
    """
    import numpy as np

    from trimtab.control.friction import moving_rows, unexplained_torque

    speed, acceleration, left = unexplained_torque(body, log.t, log.q, log.qd, log.torque)
    after = left - model.torque(speed, acceleration)
    moving = moving_rows(body.arm, speed)
    before_rms = np.maximum(np.sqrt(np.mean(left**2, axis=0, where=moving)), 1e-12)
    shares: FloatArray = 1.0 - np.sqrt(np.mean(after**2, axis=0, where=moving)) / before_rms
    return shares


def friction_table(model: "FrictionModel", shares: "FloatArray") -> str:
    """A line per joint: what was identified, and how much of the unexplained torque it explains."""
    width = max(len("joint"), *(len(joint) for joint in model.joints))
    titles = ("coulomb [Nm]", "viscous [Nm s/rad]", "inertia [kg m^2]", "offset [Nm]", "smoothing [rad/s]")
    columns = (model.coulomb, model.viscous, model.inertia, model.offset, model.speed)
    lines = ["  ".join([f"{'joint':<{width}}", *titles, "explained"])]
    for i, joint in enumerate(model.joints):
        numbers = [f"{column[i]:{len(title)}.4f}" for title, column in zip(titles, columns, strict=True)]
        lines.append("  ".join([f"{joint:<{width}}", *numbers, f"{shares[i]:9.0%}"]))
    return "\n".join(lines)
