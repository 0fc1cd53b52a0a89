"""Checks of ROS 2: each in a process of its own, since the library never imports rclpy."""

import json
import os

from trimtab.cli.check import Check, State, ask

ROUND_TRIP_TIMEOUT = 10.0  # s for two nodes to find each other and hand over one message
ODD_DOMAIN = "97"  # a ROS_DOMAIN_ID that hardly anybody uses, so that no robot hears the doctor
WHEELS = "pip install -r requirements-ros-wheels.txt (in a virtual environment), or source your ROS 2 installation"

ROS_CODE = """
import importlib.metadata as m, json, os, rclpy
from rclpy.utilities import get_rmw_implementation_identifier
wheels = [d.metadata["Name"].lower().replace("_", "-") for d in m.distributions()]
wheel = next((n for n in wheels if n.startswith("ros-") and n.endswith("-rclpy") and n != "ros-rclpy"), "")
distro = wheel.split("-")[1] if wheel else os.environ.get("ROS_DISTRO", "unknown")
print(json.dumps({"wheel": wheel, "distro": distro, "path": os.path.dirname(rclpy.__file__),
                  "rmw": get_rmw_implementation_identifier()}))
"""

ROUND_TRIP_CODE = f"""
import os, time, rclpy
from rclpy.executors import SingleThreadedExecutor
from rclpy.qos import QoSProfile, DurabilityPolicy
from std_msgs.msg import String
rclpy.init()
name = "trimtab_doctor_%d" % os.getpid()
talker, listener = rclpy.create_node(name + "_talker"), rclpy.create_node(name + "_listener")
qos = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
heard = []
listener.create_subscription(String, name, lambda message: heard.append(time.monotonic()), qos)
publisher = talker.create_publisher(String, name, qos)
executor = SingleThreadedExecutor()
executor.add_node(listener)
end = time.monotonic() + {ROUND_TRIP_TIMEOUT}
while publisher.get_subscription_count() == 0 and time.monotonic() < end:
    executor.spin_once(timeout_sec=0.01)
sent = time.monotonic()
publisher.publish(String(data="hello"))
while not heard and time.monotonic() < end:
    executor.spin_once(timeout_sec=0.01)
executor.shutdown()
rclpy.try_shutdown()
if not heard:
    raise SystemExit("nothing heard within {ROUND_TRIP_TIMEOUT:g} s")
print("%.1f" % (1e3 * (heard[0] - sent)))
"""

LAUNCH_CODE = """
import os, launch
if not hasattr(launch, "LaunchDescription"):
    raise SystemExit("another package named launch is installed in " + os.path.dirname(launch.__file__ or "?"))
print(os.path.dirname(launch.__file__))
"""

CONTROL_MSGS_CODE = """
import os, control_msgs.action
control_msgs.action.FollowJointTrajectory
print(os.path.dirname(control_msgs.__file__))
"""


def check_ros() -> Check:
    """Whether rclpy can be imported, where it comes from, and over which middleware it speaks."""
    answer = ask(ROS_CODE)
    if not answer.ok:
        sourced = os.environ.get("ROS_DISTRO")
        hint = f" although ROS_DISTRO is {sourced}: its Python must be this one" if sourced else ""
        return Check("ros 2", State.MISSING, f"{answer.text}{hint}", f"needed for nodes: {WHEELS}")
    ros = json.loads(answer.text)
    how = f"from wheels ({ros['wheel']})" if ros["wheel"] else f"of the system ({ros['path']})"
    return Check("ros 2", State.OK, f"{ros['distro']} {how}, rmw {ros['rmw']}")


def check_round_trip() -> Check:
    """Whether a message passes between two nodes of this machine over DDS, and how fast."""
    environment = {"ROS_AUTOMATIC_DISCOVERY_RANGE": "LOCALHOST", "ROS_DOMAIN_ID": ODD_DOMAIN}
    answer = ask(ROUND_TRIP_CODE, environment, timeout=ROUND_TRIP_TIMEOUT + 10.0)
    if answer.ok:
        return Check("dds", State.OK, f"one message between two nodes in {answer.text} ms")
    remedy = f"needed for nodes: {WHEELS}"
    if "heard" in answer.text or "answer" in answer.text:
        remedy = "needed for nodes: let the loopback interface carry UDP, free /dev/shm, look at RMW_IMPLEMENTATION"
    return Check("dds", State.MISSING, answer.text, remedy)


def check_launch() -> Check:
    """Whether the genuine launch package is there; an unrelated one of PyPI bears its name."""
    answer = ask(LAUNCH_CODE)
    if answer.ok:
        return Check("launch", State.OK, answer.text)
    if "another package" in answer.text:
        return Check("launch", State.WARN, answer.text, "pip uninstall launch; ROS's own is not on PyPI")
    return Check("launch", State.WARN, "not installed", "for `ros2 launch` install ROS 2; without it use `trimtab up`")


def check_control_msgs() -> Check:
    """Whether FollowJointTrajectory can be served."""
    answer = ask(CONTROL_MSGS_CODE)
    if answer.ok:
        return Check("control_msgs", State.OK, answer.text)
    remedy = "for FollowJointTrajectory (MoveIt) install control_msgs with ROS 2; the topic `reference` works without"
    return Check("control_msgs", State.WARN, "not installed", remedy)
