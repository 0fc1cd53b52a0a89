"""The bring-up plan: from launch arguments to a list of processes, as plain data.

`launch/*.launch.py` turns it into launch actions, `trimtab up` starts it with subprocess. No ROS is imported here.
"""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trimtab.errors import ConfigError
from trimtab.names import (
    COMPOSED,
    CONTROLLERS,
    DELIVERIES,
    MCAP,
    REFERENCES,
    STORAGES,
    arm_names,
    needs_friction,
    plant_names,
)
from trimtab.recording.context import split_labels

PACKAGE = "trimtab_ros"
TRANSPORT = {"FASTDDS_BUILTIN_TRANSPORTS": "UDPv4"}
"""A process killed while it holds a lock in shared memory can block its peers for a second; a datagram blocks nobody."""
REPLAY_PATIENCE = 60.0  # s of wall time; a replay stands still at each reference
LOCKSTEP_TIMEOUT = 5.0  # s of wall time; in lockstep nobody is late, only gone


@dataclass(frozen=True)
class Argument:
    """One launch argument."""

    name: str
    default: str
    description: str
    choices: tuple[str, ...] = ()


@dataclass(frozen=True)
class Process:
    """One process to start: a node, or the nodes of an arm together."""

    executable: str
    """In lib/trimtab_ros; `python -m trimtab_ros.node <executable>` runs the same."""
    namespace: str
    parameters: dict[str, bool | int | float | str] = field(default_factory=dict)
    essential: bool = True
    """Whether everything ends when this process does; an arm tracks on without its residual."""
    last: bool = False
    """Whether everything ends well when this process does; its exit code is that of all."""
    nodes: tuple["Process", ...] = ()
    """Of a composed process: what would be processes of their own otherwise."""

    @property
    def name(self) -> str:
        """The node's name; a composed process is named after what it drives."""
        return self.executable

    def write_parameters(self, folder: Path) -> Path:
        """Writes the file that both launchers pass with --params-file.

        As JSON, which is YAML with every text in quotes: ROS would read a bare `infinity` as a number.
        """
        file = folder / f"{self.namespace or 'root'}-{self.name}.yaml".replace("/", "-")
        tables = {f"/**/{node.name}": node.parameters for node in self.nodes} or {"/**": self.parameters}
        document = {pattern: {"ros__parameters": parameters} for pattern, parameters in tables.items()}
        file.write_text(json.dumps(document, indent=2), encoding="utf-8")
        return file


_SWITCH = ("true", "false")
_OF_ONE_ROBOT = ("mode", "use_sim_time", "friction_file", "cpu")


def environment() -> dict[str, str]:
    """What both launchers add to the environment of the nodes, unless the user has set it."""
    return {name: value for name, value in TRANSPORT.items() if name not in os.environ}


def arguments() -> tuple[Argument, ...]:
    """Arguments of `arm.launch.py` and `trimtab up`."""
    return (
        Argument("arm", "ur5e", "which arm", tuple(arm_names())),
        Argument("backend", "sim", "what carries the torque out: the MuJoCo bridge", ("sim",)),
        *_common_arguments(),
        Argument("namespace", "", "namespace of the robot's nodes and topics"),
    )


def fleet_arguments() -> tuple[Argument, ...]:
    """Arguments of `fleet.launch.py`: several arms in namespaces, each otherwise alike."""
    return (
        Argument("robots", "left:ur5e,right:wam", "namespace:arm pairs, separated by commas"),
        Argument("backend", "sim", "what carries the torque out: the MuJoCo bridge", ("sim",)),
        *(argument for argument in _common_arguments() if argument.name not in _OF_ONE_ROBOT),
    )


def _common_arguments() -> tuple[Argument, ...]:
    return (
        Argument(
            "controller", "computed_torque", f"words joined by '+': {', '.join(CONTROLLERS)}; without a law: computed_torque"
        ),
        Argument("friction_file", "", "identified friction model, needed by controllers with 'friction'"),
        Argument("plant", "nominal", "which plant the simulation is", tuple(plant_names())),
        Argument("seed", "0", "seed of the plant's noise"),
        Argument("reference", "plum", "what the arm does; none: wait for messages", (*REFERENCES, "none")),
        Argument("duration", "10.0", "s that one run of the reference takes"),
        Argument("repeat", "1", "how many times the reference is run; 0: for ever"),
        Argument("residual", "off", "learned torque: unused, judged but not applied, or applied", ("off", "shadow", "on")),
        Argument("model", "mlp", "bundle of the residual: name, name/version or folder"),
        Argument("trusted_keys", "", "file of public keys: the bundle must be signed with one of them"),
        Argument("delivery", COMPOSED, "an arm's nodes in one process, by direct call, or each in its own", DELIVERIES),
        Argument("publish_every", "1", "composed: cycles of the loop per message of each stream on DDS"),
        Argument("priority", "0", "SCHED_FIFO priority of the loop, where the machine allows it; 0: none"),
        Argument("cpu", "-1", "core that the loop runs on; -1: any"),
        Argument("lock_memory", "false", "keep the loop's process in memory, where the machine allows it", _SWITCH),
        Argument("mode", "real_time", "pace of the simulation: the wall clock, or each command", ("real_time", "lockstep")),
        Argument("use_sim_time", "false", "nodes take their time from /clock, which the simulation owns", _SWITCH),
        Argument("state_timeout", "0.0", "s without a state until commanding stops; 0: the arm's"),
        Argument("command_timeout", "0.0", "s without a command until the arm is damped; 0: the arm's"),
        Argument("viewer", "false", "open MuJoCo's window", _SWITCH),
        Argument("record", "false", "record the robot's topics to a rosbag2 bag", _SWITCH),
        Argument("record_directory", "", "folder of the bag; default: runs/bag-<date>-<time>"),
        Argument("record_storage", MCAP, "what the bag's data file is", STORAGES),
        Argument("labels", "", "what else the bag is to tell, such as payload=1kg,tool=gripper"),
        Argument("autostart", "true", "nodes configure and activate themselves", _SWITCH),
    )


def replay_arguments() -> tuple[Argument, ...]:
    """Arguments of `replay.launch.py` and `trimtab up bag:=...`: a bag instead of an arm."""
    kept = ("controller", "friction_file", "residual", "model", "trusted_keys", "state_timeout", "autostart")
    return (
        Argument("bag", "", "folder of the bag that is played to the nodes"),
        Argument("arm", "ur5e", "which arm the bag was recorded on", tuple(arm_names())),
        Argument("pace", "1.0", "times as fast as recorded; 0: each state waits for its answers"),
        Argument("states", "/joint_states", "topic of the states in the bag"),
        Argument("reference_topic", "/reference", "topic of the references in the bag"),
        Argument("answers", "", "folder of the bag with the answers; default: runs/replay-<date>-<time>"),
        *(argument for argument in _common_arguments() if argument.name in kept),
        Argument("namespace", "", "namespace of the nodes and topics"),
    )


def plan(given: Mapping[str, str]) -> list[Process]:
    """Processes of one arm; an unknown argument or value is an error that names the known ones."""
    values = check_arguments(given, arguments())
    return _robot(values)


def fleet_plan(given: Mapping[str, str]) -> list[Process]:
    """Processes of several arms."""
    return [process for robot in robots_of_fleet(given) for process in plan(robot)]


def replay_plan(given: Mapping[str, str]) -> list[Process]:
    """Controller, residual and what plays a bag to them, each a process: the messages are to pass over DDS.

    Time is the bag's: the replayer owns /clock, and a gap in the stamps counts as on the robot, whatever the pace.
    """
    values = check_arguments(given, replay_arguments())
    if not values["bag"]:
        raise ConfigError("bag:=FOLDER is missing: which bag is to be played?")
    pace = _number(values, "pace", float)
    whole = {argument.name: argument.default for argument in arguments()}
    whole |= {name: value for name, value in values.items() if name in whole}
    whole |= {"delivery": "processes", "use_sim_time": "true", "reference": "none"}
    if pace == 0.0:
        whole["mode"] = "lockstep"
    nodes = [process for process in _robot(whole) if process.name != "sim_bridge"]
    controller = nodes[0]
    controller.parameters["state_timeout"] = _number(values, "state_timeout", float)
    controller.parameters["patience"] = REPLAY_PATIENCE
    learned = values["residual"] != "off"
    parameters = {
        "use_sim_time": True,
        "autostart": values["autostart"] == "true",
        "arm": values["arm"],
        "bag": values["bag"],
        "states": values["states"],
        "reference": values["reference_topic"],
        "pace": pace,
        "listeners": 1 + learned,
        "answers": "torque_command+residual_torque" if learned else "torque_command",
        "directory": values["answers"],
    }
    return [*nodes, Process("replayer", values["namespace"], parameters, last=True)]


def robots_of_fleet(given: Mapping[str, str]) -> list[dict[str, str]]:
    """Each robot's arguments for `plan`.

    A fleet runs in wall time: each simulation keeps its own pace, so none can own a common clock.
    """
    values = check_arguments(given, fleet_arguments())
    if needs_friction(values["controller"]):
        raise ConfigError("a fleet cannot use 'friction': its file is one robot's own; bring the robots up one by one")
    robots = []
    for namespace, arm in parse_robots(values.pop("robots")).items():
        robot = {**values, "arm": arm, "namespace": namespace}
        if robot["record"] == "true":
            robot["record_directory"] = f"{robot['record_directory'] or 'runs/fleet'}/{namespace}"
        robots.append(check_arguments(robot, arguments()))
    return robots


def check_bags(processes: Sequence[Process]) -> Sequence[Process]:
    """The processes; refuses them where a bag of theirs exists already, since an arm would go on without its recorder."""
    for process in processes:
        directory = process.parameters.get("directory")
        if directory and Path(str(directory)).exists():
            raise ConfigError(f"record_directory: {directory} exists already, and no bag is written over; give another")
    return processes


def parse_robots(text: str) -> dict[str, str]:
    """`left:ur5e,right:wam` -> {left: ur5e, right: wam}."""
    robots: dict[str, str] = {}
    for pair in text.split(","):
        namespace, colon, arm = pair.strip().partition(":")
        if not (namespace and colon and arm):
            raise ConfigError(f"robots: '{pair.strip()}' is not a namespace:arm pair")
        if namespace in robots:
            raise ConfigError(f"robots: namespace '{namespace}' is given twice")
        robots[namespace] = arm
    return robots


def check_arguments(given: Mapping[str, str], known: tuple[Argument, ...]) -> dict[str, str]:
    """Every argument's value; refuses unknown names and values that are none of the choices."""
    by_name = {argument.name: argument for argument in known}
    for name in given:
        if name not in by_name:
            raise ConfigError(f"unknown argument '{name}'; known: {', '.join(by_name)}")
    values = {name: given.get(name, argument.default) for name, argument in by_name.items()}
    for name, value in values.items():
        choices = by_name[name].choices
        if choices and value not in choices:
            raise ConfigError(f"{name}:={value} is not known; choose one of: {', '.join(choices)}")
    return values


def _robot(values: Mapping[str, str]) -> list[Process]:
    if needs_friction(values["controller"]) and not values["friction_file"]:
        raise ConfigError(
            f"controller:={values['controller']} needs friction_file:=FILE; make one with `trimtab fit friction`"
        )
    split_labels(values["labels"])  # refuses what is none, also where nothing is recorded
    lockstep = values["mode"] == "lockstep"
    timeout = LOCKSTEP_TIMEOUT if lockstep else 0.0
    common: dict[str, Any] = {
        "use_sim_time": values["use_sim_time"] == "true" or lockstep,
        "autostart": values["autostart"] == "true",
    }
    of_arm = {**common, "arm": values["arm"]}
    of_model = {"model": values["model"], "trusted_keys": values["trusted_keys"]}
    namespace = values["namespace"]
    learned = values["residual"] != "off"
    arm = [
        Process(
            "sim_bridge",
            namespace,
            {
                **of_arm,
                "plant": values["plant"],
                "seed": _number(values, "seed", int),
                "mode": values["mode"],
                "command_timeout": _number(values, "command_timeout", float) or timeout,
                "await_residual": lockstep and learned,
                "viewer": values["viewer"] == "true",
                "publish_every": _number(values, "publish_every", int, low=1),
                "priority": _number(values, "priority", int),
                "cpu": _number(values, "cpu", int, low=-1),
                "lock_memory": values["lock_memory"] == "true",
            },
        ),
        Process(
            "controller",
            namespace,
            {
                **of_arm,
                "controller": values["controller"],
                "friction_file": values["friction_file"],
                "state_timeout": _number(values, "state_timeout", float) or timeout,
                "residual": values["residual"],
                "await_residual": lockstep,
                **of_model,
            },
        ),
    ]
    if learned:
        of_residual = {"shadow": values["residual"] == "shadow", "await_command": lockstep}
        arm.append(Process("residual", namespace, {**of_arm, **of_model, **of_residual}, essential=False))
    composed = values["delivery"] == COMPOSED
    processes = [Process("arm", namespace, nodes=tuple(arm))] if composed else arm
    if values["reference"] != "none":
        parameters = {
            "reference": values["reference"],
            "duration": _number(values, "duration", float),
            "repeat": _number(values, "repeat", int),
            # In a composed process the residual hears of a reference from the controller.
            "listeners": 1 + (values["record"] == "true") + (learned and not composed),
        }
        processes.append(Process("reference", namespace, {**of_arm, **parameters}))
    if values["record"] == "true":
        processes.append(_recorder(values, common))
    return processes


def _recorder(values: Mapping[str, str], common: Mapping[str, Any]) -> Process:
    """The recorder, with all that the bag is to tell of the robot; an arm goes on without it."""
    composed, learned = values["delivery"] == COMPOSED, values["residual"] != "off"
    told = {name: values[name] for name in ("arm", "plant", "seed", "controller", "friction_file", "residual", "delivery")}
    parameters = {
        **common,
        **told,
        "directory": values["record_directory"],
        "storage": values["record_storage"],
        "state_timeout": _number(values, "state_timeout", float)
        or (LOCKSTEP_TIMEOUT if values["mode"] == "lockstep" else 0.0),
        "labels": values["labels"],
        "driver": values["backend"],
        "model": values["model"] if learned else "",
        "reference": values["reference"],
        "publish_every": _number(values, "publish_every", int, low=1) if composed else 1,
    }
    return Process("recorder", values["namespace"], parameters, essential=False)


def _number(values: Mapping[str, str], name: str, kind: type, low: int = 0) -> Any:
    wanted = "a whole number" if kind is int else "a number"
    try:
        number = kind(values[name])
    except ValueError:
        raise ConfigError(f"{name}:={values[name]} is not {wanted}") from None
    if not low <= number < math.inf:
        least = "zero" if low == 0 else str(low)
        raise ConfigError(f"{name}:={values[name]} is not {wanted} of {least} or more")
    return number
