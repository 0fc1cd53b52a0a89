"""Places a camera so that an arm and its path fill the picture, whatever the arm's size."""

import mujoco
import numpy as np

from trimtab.typing import FloatArray

TURN = np.deg2rad(40.0)  # off the line from the tool to the base: arm and path are both seen at an angle
TILT_LOW, TILT_HIGH = np.deg2rad(16.0), np.deg2rad(38.0)  # looking down on an upright path, and on a lying one
FILL = 0.9  # of the picture's width or height, whichever is scarcer


def fit_camera(
    points: FloatArray, path: FloatArray, base: FloatArray, field_of_view: float, aspect: float
) -> mujoco.MjvCamera:
    """A camera that sees every point, from the path's side of the arm.

    points: (n, 3), path: (m, 3), base: (3,) [m]; field_of_view: vertical [rad]; aspect: width over height.
    """
    centre = path.mean(axis=0)
    outward = (centre - base)[:2]
    heading = float(np.arctan2(outward[1], outward[0])) if np.linalg.norm(outward) > 1e-6 else 0.0
    normal = np.linalg.svd(path - centre, full_matrices=False)[2][-1]
    azimuth = heading + np.pi - TURN
    elevation = -(TILT_LOW + (TILT_HIGH - TILT_LOW) * abs(float(normal[2])) ** 2)

    forward = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
    axes = np.stack([right, np.cross(right, forward), -forward])
    slope = FILL * np.tan(field_of_view / 2.0) * np.array([aspect, 1.0])
    seen = points @ axes.T
    look = (seen.min(axis=0) + seen.max(axis=0)) / 2.0
    distance = 0.0
    for _ in range(5):  # perspective: what is near looks larger, so the middle of the box is not the picture's
        offset = seen - look
        distance = float((np.abs(offset[:, :2]) / slope + offset[:, 2:]).max())
        share = offset[:, :2] / (distance - offset[:, 2:])
        look[:2] += (share.min(axis=0) + share.max(axis=0)) / 2.0 * distance

    camera = mujoco.MjvCamera()
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.lookat = look @ axes
    camera.distance = distance
    camera.azimuth = np.rad2deg(azimuth)
    camera.elevation = np.rad2deg(elevation)
    return camera
