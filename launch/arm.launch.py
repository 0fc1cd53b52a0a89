"""Brings one arm up: `ros2 launch trimtab_ros arm.launch.py arm:=wam plant:=worn` (`--show-args` lists all arguments)."""

import atexit
import shutil
import tempfile
from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import DeclareLaunchArgument, OpaqueFunction, Shutdown
from launch.substitutions import LaunchConfiguration
from launch_ros.actions import Node

from trimtab_ros.plan import PACKAGE, Process, arguments, environment, plan

PARAMETERS = Path(tempfile.mkdtemp(prefix="trimtab-launch-"))
atexit.register(shutil.rmtree, PARAMETERS, ignore_errors=True)


def node_action(process: Process) -> Node:
    """A process of the plan as a launch action; when an essential node ends, everything ends."""
    return Node(
        package=PACKAGE,
        executable=process.executable,
        name=process.name,
        namespace=process.namespace,
        parameters=[str(process.write_parameters(PARAMETERS))],
        additional_env=environment(),
        output="screen",
        on_exit=Shutdown(reason=f"{process.name} ended") if process.essential else None,
    )


def bring_up(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The plan for the given arguments."""
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in arguments()}
    return [node_action(process) for process in plan(given)]


def generate_launch_description() -> LaunchDescription:
    """Declares every argument of the plan with its description and choices."""
    declared = [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=list(argument.choices) or None,
        )
        for argument in arguments()
    ]
    return LaunchDescription([*declared, OpaqueFunction(function=bring_up)])
