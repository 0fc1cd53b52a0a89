"""The drawn scene: an arm in postures of a run, with the reference and the driven path of its tool as trails."""

from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType

import mujoco
import numpy as np

from trimtab.arm import Arm
from trimtab.plant import PlantGap
from trimtab.plant.model import build_model
from trimtab.report.camera import fit_camera
from trimtab.report.offscreen import OffScreen
from trimtab.runlog import RunLog
from trimtab.typing import FloatArray

Colour = tuple[float, float, float]
REFERENCE_COLOUR: Colour = (0.0, 0.45, 0.70)
DRIVEN_COLOUR: Colour = (0.90, 0.37, 0.0)
GHOST_ALPHA = 0.12
DOT_RADIUS, LINE_RADIUS, DOT_SPACING = 0.0050, 0.0028, 0.018  # shares of the scene's size
FRAMED_POSTURES = 80
FIELD_OF_VIEW = 28.0  # degrees, vertical; narrow, so that near links do not look swollen


@dataclass(frozen=True)
class Format:
    """Size and fineness of a drawing; without a graphics card the trails' facets decide how long a frame takes."""

    width: int
    """[pixels]"""
    height: int
    """[pixels]"""
    trail_points: int
    facets: int
    """Around a cylinder."""
    shadow_size: int
    """Width of the shadow map [pixels]."""


class Stage:
    """One arm, one run, one camera. A context manager.

    Link positions are drawn: the play joints of a plant with backlash stay at zero, the arm's own joints carry all.
    """

    def __init__(self, arm: Arm, gap: PlantGap, log: RunLog, form: Format) -> None:
        """Raises RenderError where this machine cannot draw."""
        self.model = build_model(arm, gap, arm.period)
        _prepare(self.model, form)
        self.data = mujoco.MjData(self.model)
        self._addresses = np.array([self.model.joint(name).qposadr[0] for name in arm.joints])
        self._tool = self.model.body(arm.tool_frame).id
        self._option = mujoco.MjvOption()
        self._untouched = mujoco.MjvPerturb()
        self.log = log
        self._every = max(1, len(log.t) // form.trail_points)
        self.driven = self._tool_path(log.q_link[:: self._every])
        """Positions of the tool in the world, every so many rows of the log: (n, 3) [m]."""
        reference = self._tool_path(log.q_des[:: self._every])

        base = self.data.body(arm.base_frame).xpos.copy()
        rows = np.linspace(0, len(log.t) - 1, FRAMED_POSTURES).astype(int)
        corners = np.concatenate([self._corners(log.q_link[row]) for row in rows])
        points = np.vstack([corners, self.driven, reference])
        self._size = float(np.linalg.norm(points.max(axis=0) - points.min(axis=0)))
        self._dots = _spaced(reference, DOT_SPACING * self._size)
        self._camera = fit_camera(points, reference, base, np.deg2rad(FIELD_OF_VIEW), form.width / form.height)
        self._screen = OffScreen(self.model, form.width, form.height)

    def draw(self, row: int, trail_to: int, ghosts: tuple[int, ...] = ()) -> np.ndarray:
        """The arm as in a row of the log, the driven trail up to another, pale arms in further rows.

        Returns (height, width, 3) of uint8.
        """
        scene = self._screen.scene
        self._pose(self.log.q_link[row])
        mujoco.mjv_updateScene(
            self.model, self.data, self._option, self._untouched, self._camera, mujoco.mjtCatBit.mjCAT_ALL, scene
        )
        for dot in self._dots:
            self._add(mujoco.mjtGeom.mjGEOM_SPHERE, DOT_RADIUS, dot, dot, REFERENCE_COLOUR)
        line = self.driven[: trail_to // self._every + 1]
        for start, end in pairwise(line):
            self._add(mujoco.mjtGeom.mjGEOM_CAPSULE, LINE_RADIUS, start, end, DRIVEN_COLOUR)
        for ghost in ghosts:
            self._add_ghost(self.log.q_link[ghost])
        return self._screen.image()

    def highest(self) -> int:
        """The row in which the tool is highest: there the arm hides the least of its path."""
        return int(self.driven[:, 2].argmax()) * self._every

    def far_apart(self, row: int, count: int) -> tuple[int, ...]:
        """Rows whose tool positions lie far from a row's and from each other's."""
        chosen = [row // self._every]
        for _ in range(count):
            distances = np.linalg.norm(self.driven[:, None] - self.driven[chosen], axis=2).min(axis=1)
            chosen.append(int(distances.argmax()))
        return tuple(index * self._every for index in chosen[1:])

    def close(self) -> None:
        """Frees the drawing surface."""
        self._screen.close()

    def __enter__(self) -> "Stage":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _pose(self, q: FloatArray) -> None:
        self.data.qpos[self._addresses] = q
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def _tool_path(self, postures: FloatArray) -> FloatArray:
        path = np.empty((len(postures), 3))
        for i, q in enumerate(postures):
            self._pose(q)
            path[i] = self.data.xpos[self._tool]
        return path

    def _corners(self, q: FloatArray) -> FloatArray:
        """Corners of the boxes around all geoms but the floor, shape (8 geoms, 3) [m]."""
        self._pose(q)
        solid = self.model.geom_type != mujoco.mjtGeom.mjGEOM_PLANE
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
        boxes = self.model.geom_aabb[solid]
        local = boxes[:, None, :3] + signs * boxes[:, None, 3:]
        rotation = self.data.geom_xmat[solid].reshape(-1, 3, 3)
        corners: FloatArray = np.einsum("gij,gcj->gci", rotation, local) + self.data.geom_xpos[solid][:, None]
        return corners.reshape(-1, 3)

    def _add(self, kind: int, radius: float, start: FloatArray, end: FloatArray, colour: Colour) -> None:
        """A ball at `start`, or a capsule from `start` to `end`, as decoration."""
        scene = self._screen.scene
        geom = scene.geoms[scene.ngeom]
        size = np.full(3, radius * self._size)
        mujoco.mjv_initGeom(geom, kind, size, start, np.eye(3).ravel(), np.array([*colour, 1.0], dtype=np.float32))
        if kind == mujoco.mjtGeom.mjGEOM_CAPSULE:
            mujoco.mjv_connector(geom, kind, radius * self._size, start, end)
        geom.category = mujoco.mjtCatBit.mjCAT_DECOR
        geom.emission = 0.25  # trails keep their colour in the arm's shade
        geom.specular = 0.0
        scene.ngeom += 1

    def _add_ghost(self, q: FloatArray) -> None:
        scene = self._screen.scene
        first = scene.ngeom
        self._pose(q)
        mujoco.mjv_addGeoms(self.model, self.data, self._option, self._untouched, mujoco.mjtCatBit.mjCAT_DYNAMIC, scene)
        for i in range(first, scene.ngeom):
            scene.geoms[i].rgba[3] *= GHOST_ALPHA
            scene.geoms[i].category = mujoco.mjtCatBit.mjCAT_DECOR  # which casts no shadow


def _prepare(model: mujoco.MjModel, form: Format) -> None:
    """Even light from afar and a floor that is not blown out; only the drawing's own copy of the model is touched."""
    model.vis.global_.fovy = FIELD_OF_VIEW
    model.vis.quality.numslices, model.vis.quality.numstacks = form.facets, form.facets // 2
    model.vis.quality.shadowsize = form.shadow_size
    model.light_type[:] = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL
    model.light_specular[:] = 0.1
    model.light_diffuse[:] = 0.55
    model.vis.headlight.ambient = [0.3, 0.3, 0.3]
    model.vis.headlight.diffuse = [0.3, 0.3, 0.3]
    model.vis.headlight.specular = [0.0, 0.0, 0.0]
    model.geom("floor").rgba = [0.82, 0.85, 0.89, 1.0]
    model.geom("floor").size[:2] = 0.0  # endless


def _spaced(path: FloatArray, spacing: float) -> FloatArray:
    """Points of a path no nearer to each other than `spacing` [m]: laps over the same ground leave one row of dots."""
    kept = path[:1]
    for point in path[1:]:
        if np.linalg.norm(kept - point, axis=1).min() >= spacing:
            kept = np.vstack([kept, point])
    return kept
