"""Brings several arms up, each in its namespace: `ros2 launch trimtab_ros fleet.launch.py robots:=left:ur5e,right:wam`."""

from pathlib import Path

from launch import LaunchContext, LaunchDescription, LaunchDescriptionEntity
from launch.actions import IncludeLaunchDescription, OpaqueFunction
from launch.launch_description_sources import PythonLaunchDescriptionSource
from launch.substitutions import LaunchConfiguration

from trimtab_ros.launch_actions import declared
from trimtab_ros.plan import fleet_arguments, robots_of_fleet

ARM_LAUNCH = Path(__file__).with_name("arm.launch.py")


def bring_up(context: LaunchContext) -> list[LaunchDescriptionEntity]:
    """One `arm.launch.py` per robot, with all of its arguments set."""
    given = {argument.name: LaunchConfiguration(argument.name).perform(context) for argument in fleet_arguments()}
    return [
        IncludeLaunchDescription(PythonLaunchDescriptionSource(str(ARM_LAUNCH)), launch_arguments=robot.items())
        for robot in robots_of_fleet(given)
    ]


def generate_launch_description() -> LaunchDescription:
    """Declares every argument of the fleet with its description and choices."""
    return LaunchDescription([*declared(fleet_arguments()), OpaqueFunction(function=bring_up)])
