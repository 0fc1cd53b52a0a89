"""Trimtab's ROS 2 side: thin nodes around the pure library, and the plan that brings an arm up."""
