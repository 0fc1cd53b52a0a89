"""The plan's processes and arguments as launch actions; only the launch files import this."""

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import Any

from launch import LaunchContext
from launch.actions import DeclareLaunchArgument, Shutdown
from launch_ros.actions import Node

from trimtab_ros.plan import PACKAGE, Argument, Process, environment

PARAMETERS = Path(tempfile.mkdtemp(prefix="trimtab-launch-"))
atexit.register(shutil.rmtree, PARAMETERS, ignore_errors=True)


def node_action(process: Process) -> Node:
    """A process of the plan as a launch action; when an essential node ends, everything ends."""
    ended: Any = Shutdown(reason=f"{process.name} ended") if process.essential else None
    return Node(
        package=PACKAGE,
        executable=process.executable,
        name=None if process.nodes else process.name,
        namespace=process.namespace,
        parameters=[str(process.write_parameters(PARAMETERS))],
        additional_env=environment(),
        output="screen",
        on_exit=_end_with_its_code if process.last else ended,
    )


def declared(table: tuple[Argument, ...]) -> list[DeclareLaunchArgument]:
    """Every argument with its description and choices."""
    return [
        DeclareLaunchArgument(
            argument.name,
            default_value=argument.default,
            description=argument.description,
            choices=list(argument.choices) or None,
        )
        for argument in table
    ]


def _end_with_its_code(event: Any, context: LaunchContext) -> Shutdown:  # noqa: ARG001
    """The launch has done its work; it fails only on an error, so a failure becomes one."""
    if event.returncode != 0:
        raise RuntimeError(f"{event.process_name} ended with exit code {event.returncode}")
    return Shutdown(reason=f"{event.process_name} has done its work")
