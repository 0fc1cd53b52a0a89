#!/bin/bash
# Runs a command in the ROS 2 environment and the workspace.
set -e
source /opt/ros/jazzy/setup.bash
source /workspace/install/setup.bash
exec "$@"
