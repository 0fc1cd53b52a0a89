"""Brings one arm up: `ros2 launch trimtab_ros arm.launch.py arm:=wam plant:=worn` (`--show-args` lists all arguments)."""

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import OpaqueFunction
from launch.substitutions import LaunchConfiguration

from trimtab_ros.launch_actions import declared, node_action
from trimtab_ros.plan import arguments, check_bags, plan


def bring_up(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """The plan for the given arguments."""
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in arguments()}
    return [node_action(process) for process in check_bags(plan(given))]


def generate_launch_description() -> LaunchDescription:
    """Declares every argument of the plan with its description and choices."""
    return LaunchDescription([*declared(arguments()), OpaqueFunction(function=bring_up)])
