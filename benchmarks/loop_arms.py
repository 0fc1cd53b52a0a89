"""Arms of any number of joints for `loop.py`: a chain of equal links as URDF and contract."""

from pathlib import Path

import yaml

from trimtab.share import share_directory

LINK = """
  <link name="link_{i}"><inertial><origin xyz="0 0 0.05"/><mass value="0.2"/>
    <inertia ixx="0.0002" ixy="0" ixz="0" iyy="0.0002" iyz="0" izz="0.0001"/></inertial></link>"""
JOINT = """
  <joint name="joint_{i}" type="revolute"><parent link="{parent}"/><child link="link_{i}"/><origin xyz="0 0 0.1"/>
    <axis xyz="{axis}"/><limit lower="-3" upper="3" effort="100" velocity="3"/></joint>"""


def chain_arm(folder: Path, joints: int) -> Path:
    """Writes the URDF and the contract of a chain; gives the contract's path. What is no joint's is the UR5e's."""
    folder.mkdir(parents=True)
    parts = ['<?xml version="1.0"?>\n<robot name="chain"><link name="base"/>']
    for i in range(joints):
        parent = "base" if i == 0 else f"link_{i - 1}"
        parts += [LINK.format(i=i), JOINT.format(i=i, parent=parent, axis="0 0 1" if i % 2 == 0 else "0 1 0")]
    (folder / "chain.urdf").write_text("".join([*parts, "\n</robot>\n"]))
    contract = yaml.safe_load((share_directory() / "config" / "arms" / "ur5e.yaml").read_text())
    joint = {"position": [-3.0, 3.0], "velocity": 3.0, "torque": 100.0, "armature": 0.1, "home": 0.1}
    joint |= {"kp": 100.0, "kd": 10.0, "bandwidth": 15.0}
    contract |= {"arm": f"chain_{joints}", "urdf": "chain.urdf", "base_frame": "base", "tool_frame": f"link_{joints - 1}"}
    contract["joints"] = {f"joint_{i}": dict(joint) for i in range(joints)}
    file = folder / f"chain_{joints}.yaml"
    file.write_text(yaml.safe_dump(contract, sort_keys=False))
    return file
