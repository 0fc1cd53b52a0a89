"""Rigid-body model of an arm (pinocchio): what the controllers believe, in the arm's joint order."""

import numpy as np
import pinocchio as pin

from trimtab.arm import Arm
from trimtab.errors import ConfigError
from trimtab.typing import FloatArray

_WORLD = pin.Convention.WORLD


class RigidBody:
    """Kinematics and dynamics of one arm. Joint arrays have shape (dof,), SI units.

    Results that are arrays owned by pinocchio are valid until the next call; copy what must live longer.
    """

    def __init__(self, arm: Arm) -> None:
        self.arm = arm
        self.model = pin.buildModelFromXML(arm.urdf_xml)
        names = tuple(self.model.names)[1:]
        if names != arm.joints:
            raise ConfigError(f"{arm.file}: pinocchio orders the joints {names}, the contract {arm.joints}")
        self.model.armature = np.array(arm.armature)
        self.data = self.model.createData()
        self._weightless = self.model.copy()
        self._weightless.gravity = pin.Motion.Zero()
        self._weightless_data = self._weightless.createData()
        self._base = self.model.getFrameId(arm.base_frame)
        self._tool = self.model.getFrameId(arm.tool_frame)
        self._zeros = np.zeros(arm.dof)
        self._owns_gravity = arm.actuator.stack_owns_gravity
        owned = (self.model, self.data) if self._owns_gravity else (self._weightless, self._weightless_data)
        self._owned_model, self._owned_data = owned

    def inverse_dynamics(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """M(q) qdd + C(q, qd) qd + g(q) [Nm]."""
        result: FloatArray = pin.rnea(self.model, self.data, q, qd, qdd)
        return result

    def inverse_dynamics_without_gravity(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """M(q) qdd + C(q, qd) qd [Nm]."""
        result: FloatArray = pin.rnea(self._weightless, self._weightless_data, q, qd, qdd)
        return result

    def owned_dynamics(self, q: FloatArray, qd: FloatArray, qdd: FloatArray) -> FloatArray:
        """Inverse dynamics with the gravity torque only where the arm's contract leaves it to the stack [Nm]."""
        result: FloatArray = pin.rnea(self._owned_model, self._owned_data, q, qd, qdd)
        return result

    def gravity(self, q: FloatArray) -> FloatArray:
        """g(q) [Nm]."""
        result: FloatArray = pin.computeGeneralizedGravity(self.model, self.data, q)
        return result

    def owned_gravity(self, q: FloatArray) -> FloatArray:
        """g(q) where the stack owns gravity, else zero [Nm]."""
        return self.gravity(q) if self._owns_gravity else self._zeros

    def mass_matrix(self, q: FloatArray) -> FloatArray:
        """M(q), rotor inertia included, shape (dof, dof) [kg m^2]."""
        # The algorithm fills the upper triangle; its Python binding mirrors that into the lower one.
        matrix: FloatArray = pin.crba(self.model, self.data, q, _WORLD)
        return matrix

    def coriolis_matrix(self, q: FloatArray, qd: FloatArray) -> FloatArray:
        """C(q, qd) in Christoffel form, shape (dof, dof)."""
        matrix: FloatArray = pin.computeCoriolisMatrix(self.model, self.data, q, qd)
        return matrix

    def tool_pose(self, q: FloatArray) -> pin.SE3:
        """Pose of the tool frame in the base frame."""
        pin.forwardKinematics(self.model, self.data, q)
        base = pin.updateFramePlacement(self.model, self.data, self._base)
        return base.actInv(pin.updateFramePlacement(self.model, self.data, self._tool))

    def tool_position(self, q: FloatArray) -> FloatArray:
        """Position of the tool frame in the base frame, shape (3,) [m]."""
        position: FloatArray = self.tool_pose(q).translation
        return position

    def tool_height(self, q: FloatArray) -> float:
        """Height of the tool frame above the floor, z = 0 of the URDF's root [m]."""
        pin.forwardKinematics(self.model, self.data, q)
        return float(pin.updateFramePlacement(self.model, self.data, self._tool).translation[2])

    def tool_path(self, q: FloatArray) -> FloatArray:
        """Tool positions of many postures: (n, dof) -> (n, 3) [m]."""
        return np.array([self.tool_position(row) for row in q]).reshape(-1, 3)

    def tool_jacobian(self, q: FloatArray) -> FloatArray:
        """Linear velocity of the tool in the base frame for each joint speed, shape (3, dof) [m/rad]."""
        jacobian = pin.computeFrameJacobian(self.model, self.data, q, self._tool, pin.LOCAL_WORLD_ALIGNED)[:3]
        base = pin.updateFramePlacement(self.model, self.data, self._base).rotation
        result: FloatArray = base.T @ jacobian
        return result

    def slotine_li_regressor(self, q: FloatArray, qd: FloatArray, qd_ref: FloatArray, qdd_ref: FloatArray) -> FloatArray:
        """Y of M qdd_ref + C(q, qd) qd_ref + g = Y pi, last link's ten parameters only, shape (dof, 10).

        The quadratic Coriolis term of the plain regressor is polarised: with c(v) = C(q, v) v,
        C(q, a) b = (c(a + b) - c(a - b)) / 4.
        """
        model, data = self._weightless, self._weightless_data
        coriolis = pin.computeJointTorqueRegressor(model, data, q, qd + qd_ref, self._zeros)[:, -10:].copy()
        coriolis -= pin.computeJointTorqueRegressor(model, data, q, qd - qd_ref, self._zeros)[:, -10:]
        inertia_and_gravity = pin.computeJointTorqueRegressor(self.model, self.data, q, self._zeros, qdd_ref)[:, -10:]
        coriolis *= 0.25
        result: FloatArray = inertia_and_gravity + coriolis
        return result
