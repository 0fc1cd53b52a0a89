"""The launch files under the genuine launch package; skipped where it is not installed."""

import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from trimtab_ros.plan import arguments, fleet_arguments, fleet_plan, plan, replay_arguments, replay_plan

launch = pytest.importorskip("launch", reason="the launch package is not installed (a ROS 2 machine has it)")
if not hasattr(launch, "LaunchDescription"):
    pytest.skip("the installed 'launch' is an unrelated package", allow_module_level=True)
pytest.importorskip("launch_ros", reason="launch_ros is not installed (a ROS 2 machine has it)")

LAUNCH = Path(__file__).resolve().parents[3] / "launch"


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, LAUNCH / f"{name}.launch.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def nodes_of(description, given):
    """Every node that a launch description starts, as (namespace, executable, name, parameters)."""
    import json

    from launch import LaunchContext
    from launch.actions import DeclareLaunchArgument, IncludeLaunchDescription, OpaqueFunction
    from launch_ros.actions import Node

    context = LaunchContext()
    context.launch_configurations.update(given)
    found = []

    def visit(entity):
        if isinstance(entity, Node):
            entity._perform_substitutions(context)
            files = [Path(item) for item, is_file in entity._Node__expanded_parameter_arguments or [] if is_file]
            parameters = [json.loads(f.read_text()) for f in files if f.name.endswith(f"{entity.node_executable}.yaml")]
            found.append(
                (entity.expanded_node_namespace.strip("/"), entity.node_executable, entity._Node__node_name, parameters)
            )
        elif isinstance(entity, DeclareLaunchArgument | OpaqueFunction | IncludeLaunchDescription):
            for child in entity.visit(context) or []:
                visit(child)
        elif hasattr(entity, "entities"):
            for child in entity.entities:
                visit(child)
        elif type(entity).__name__ in ("SetLaunchConfiguration",):
            entity.visit(context)

    visit(description)
    return found


def planned(processes):
    return [
        (
            process.namespace,
            process.executable,
            None if process.nodes else process.name,
            [
                {f"/**/{node.name}": {"ros__parameters": node.parameters} for node in process.nodes}
                or {"/**": {"ros__parameters": process.parameters}}
            ],
        )
        for process in processes
    ]


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"arm": "wam", "plant": "worn", "reference": "infinity", "record": "true"},
        {"mode": "lockstep", "namespace": "n", "delivery": "processes"},
    ],
)
def test_arm_launch_starts_the_plan(given):
    assert nodes_of(load("arm").generate_launch_description(), given) == planned(plan(given))


def test_fleet_launch_starts_the_plan():
    given = {"robots": "a:ur5e,b:so101", "plant": "hot"}
    assert nodes_of(load("fleet").generate_launch_description(), given) == planned(fleet_plan(given))


@pytest.mark.parametrize("given", [{"bag": "b"}, {"bag": "b", "arm": "wam", "residual": "on", "pace": "0"}])
def test_replay_launch_starts_the_plan(given):
    assert nodes_of(load("replay").generate_launch_description(), given) == planned(replay_plan(given))


@pytest.mark.parametrize(
    ("name", "table"), [("arm", arguments()), ("fleet", fleet_arguments()), ("replay", replay_arguments())]
)
def test_every_argument_is_declared_with_description_and_choices(name, table):
    from launch.actions import DeclareLaunchArgument

    declared = {
        entity.name: entity
        for entity in load(name).generate_launch_description().entities
        if isinstance(entity, DeclareLaunchArgument)
    }
    assert set(declared) == {argument.name for argument in table}
    for argument in table:
        assert declared[argument.name].description.startswith(argument.description)
        assert tuple(declared[argument.name].choices or ()) == argument.choices


def start_launch(graph, *given: str) -> "subprocess.Popen[bytes]":
    """`ros2 launch` without the ros2 command: the same service, from the file."""
    code = (
        "import sys; from launch import LaunchService; from launch.actions import IncludeLaunchDescription;"
        "from launch.launch_description_sources import PythonLaunchDescriptionSource as S;"
        "s = LaunchService(argv=sys.argv[2:]);"
        "s.include_launch_description(IncludeLaunchDescription(S(sys.argv[1]),"
        "launch_arguments=[tuple(a.split(':=')) for a in sys.argv[2:]])); sys.exit(s.run())"
    )
    prefix = os.pathsep.join(filter(None, [sys.prefix, os.environ.get("AMENT_PREFIX_PATH", "")]))
    with (graph.folder / "launch.out").open("wb") as output:
        return subprocess.Popen(
            [sys.executable, "-c", code, str(LAUNCH / "arm.launch.py"), *given],
            env={**graph.environment, "AMENT_PREFIX_PATH": prefix},
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def test_arm_launch_runs_and_ends_cleanly(graph):
    process = start_launch(graph, "arm:=so101", "state_timeout:=1.0", "command_timeout:=1.0")
    try:
        graph.until_status("controller", "following")
        children = [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0, (graph.folder / "launch.out").read_text()
        assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_an_unknown_value_is_an_error(graph):
    process = start_launch(graph, "arm:=ur99")
    assert process.wait(60) != 0
    assert "ur99" in (graph.folder / "launch.out").read_text()
