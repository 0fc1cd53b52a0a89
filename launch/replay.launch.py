"""Plays a bag to live nodes: `ros2 launch trimtab_ros replay.launch.py bag:=runs/first arm:=ur5e pace:=2.0`."""

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import OpaqueFunction
from launch.substitutions import LaunchConfiguration

from trimtab_ros.launch_actions import declared, node_action
from trimtab_ros.plan import replay_arguments, replay_plan


def play(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The plan for the given arguments."""
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in replay_arguments()}
    return [node_action(process) for process in replay_plan(given)]


def generate_launch_description() -> LaunchDescription:
    """Declares every argument of the replay with its description and choices."""
    return LaunchDescription([*declared(replay_arguments()), OpaqueFunction(function=play)])
