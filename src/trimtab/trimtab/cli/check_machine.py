"""Checks of the machine: drawing, the ports to robots, and what real-time control needs."""

import os
from pathlib import Path

from trimtab.cli.check import Check, State, ask

DEVICES = Path("/dev")
NETWORK = Path("/sys/class/net")
REALTIME_FLAG = Path("/sys/kernel/realtime")
MEMORY_TO_LOCK = 512 * 1024 * 1024  # bytes; what a control process with its libraries keeps resident
LIMITS_FILE = "/etc/security/limits.d/realtime.conf"

RENDER_CODE = """
import mujoco
model = mujoco.MjModel.from_xml_string('<mujoco><worldbody><light pos="0 0 2"/><geom size="0.1"/></worldbody></mujoco>')
data = mujoco.MjData(model)
mujoco.mj_forward(model, data)
with mujoco.Renderer(model, 32, 32) as renderer:
    renderer.update_scene(data)
    if renderer.render().max() == 0:
        raise SystemExit("the picture is black")
"""

FIFO_CODE = """
import os
os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
"""


def check_rendering() -> Check:
    """Whether MuJoCo can draw without a screen."""
    failures = []
    for backend in ("egl", "osmesa"):
        answer = ask(RENDER_CODE, {"MUJOCO_GL": backend})
        if answer.ok:
            return Check("rendering", State.OK, f"off screen with {backend}")
        failures.append(f"{backend}: {answer.text}")
    remedy = "apt-get install libegl1 libgl1-mesa-dri (or libosmesa6); until then use `trimtab run --no-pictures`"
    return Check("rendering", State.WARN, "; ".join(failures), remedy)


def check_serial() -> Check:
    """Serial ports, and whether this user may open them."""
    ports = sorted([*DEVICES.glob("ttyUSB*"), *DEVICES.glob("ttyACM*")])
    if not ports:
        return Check("serial", State.WARN, "no ttyUSB or ttyACM port", "for an OpenManipulator-X or SO-101 plug it in")
    closed = [port.name for port in ports if not os.access(port, os.R_OK | os.W_OK)]
    if closed:
        remedy = "sudo usermod -aG dialout $USER, then log in again"
        state = "in" if in_dialout() else "not in"
        return Check("serial", State.WARN, f"no permission for {', '.join(closed)} (user {state} group dialout)", remedy)
    return Check("serial", State.OK, ", ".join(port.name for port in ports))


def in_dialout() -> bool:
    """Whether this process has the group that owns serial ports."""
    import grp  # absent on systems that are not Unix, where the doctor should still start

    try:
        return grp.getgrnam("dialout").gr_gid in os.getgroups()
    except KeyError:
        return False


def check_can() -> Check:
    """CAN interfaces, and whether they are up; a virtual one that is up calls its state unknown."""
    states = {link.name: _state_of(link) for link in sorted(NETWORK.glob("*can*"))}
    if not states:
        return Check("can", State.WARN, "no interface", f"for a WAM plug in a CAN adapter, then {_bring_up('can0')}")
    found = ", ".join(f"{name} ({state})" for name, state in states.items())
    down = [name for name, state in states.items() if state not in ("up", "unknown")]
    if down:
        return Check("can", State.WARN, found, f"for a WAM: {'; '.join(map(_bring_up, down))}")
    return Check("can", State.OK, found)


def check_scheduler() -> Check:
    """Whether a control loop may take real-time priority."""
    cores = os.cpu_count() or 1
    preempt = _read(REALTIME_FLAG) == "1"
    kernel = "PREEMPT_RT" if preempt else "no PREEMPT_RT"
    if not ask(FIFO_CODE).ok:
        remedy = f"for a robot add `@realtime - rtprio 98` to {LIMITS_FILE} and join that group"
        priority = _limit("RLIMIT_RTPRIO")
        return Check("scheduler", State.WARN, f"no SCHED_FIFO (rtprio limit {priority}), {cores} cores, {kernel}", remedy)
    found = f"SCHED_FIFO allowed, {cores} cores, {kernel}"
    if preempt:
        return Check("scheduler", State.OK, found)
    return Check("scheduler", State.WARN, found, "for a robot at 500 Hz boot a PREEMPT_RT kernel; simulation needs none")


def check_memory_lock() -> Check:
    """How much memory a control process may keep from being paged out."""
    amount = _limit("RLIMIT_MEMLOCK")
    if amount == "unlimited" or int(amount) >= MEMORY_TO_LOCK:
        return Check("memory lock", State.OK, amount if amount == "unlimited" else f"{int(amount) // 2**20} MiB")
    remedy = f"for a robot add `@realtime - memlock unlimited` to {LIMITS_FILE}"
    return Check("memory lock", State.WARN, f"{int(amount) // 2**20} MiB", remedy)


def _limit(name: str) -> str:
    """A soft resource limit as text, `unlimited` or a number."""
    import resource  # Unix only, as above

    soft, _ = resource.getrlimit(getattr(resource, name))
    return "unlimited" if soft == resource.RLIM_INFINITY else str(soft)


def _bring_up(name: str) -> str:
    """The command that opens a CAN interface; only real ones have a bit rate."""
    return f"sudo ip link set {name} up" + (" type can bitrate 1000000" if name.startswith("can") else "")


def _state_of(link: Path) -> str:
    return _read(link / "operstate") or "unknown"


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""
