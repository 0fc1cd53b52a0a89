"""The MuJoCo model of an arm, made at run time from the arm's URDF and a plant's gap."""

import mujoco
import numpy as np

from trimtab.arm import Arm
from trimtab.errors import ConfigError
from trimtab.plant.gap import PlantGap

# MuJoCo reads its compiler options from this element of a URDF. Fixed links stay bodies, so frames keep their names.
COMPILER = (
    '<mujoco><compiler discardvisual="false" fusestatic="false" inertiafromgeom="false" balanceinertia="false"/></mujoco>'
)
PLAY_SUFFIX = "_play"
HARD = [0.999, 0.9999, 0.001, 0.5, 2.0]  # impedance of constraints; with MuJoCo's default, stuck joints creep


def build_model(arm: Arm, gap: PlantGap, timestep: float) -> mujoco.MjModel:
    """Compiles the plant: joints with rotor inertia and friction, play joints for backlash, a payload, and a scene."""
    xml = arm.urdf_xml.replace("</robot>", COMPILER + "</robot>")
    try:
        spec = mujoco.MjSpec.from_string(xml)
    except ValueError as error:
        raise ConfigError(f"MuJoCo cannot load the URDF of {arm.name}: {error}") from error
    spec.option.timestep = timestep
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0  # the plant is the arm alone: nothing touches
    for i, name in enumerate(arm.joints):
        _make_joint(spec.joint(name), i, arm, gap, timestep)
    if gap.payload_mass > 0.0:
        _add_payload(spec, arm, gap)
    _add_scene(spec)
    try:
        return spec.compile()
    except ValueError as error:
        raise ConfigError(f"MuJoCo cannot compile the plant '{gap.name}' of {arm.name}: {error}") from error


def _make_joint(joint: mujoco.MjsJoint, i: int, arm: Arm, gap: PlantGap, timestep: float) -> None:
    joint.limited = mujoco.mjtLimited.mjLIMITED_FALSE  # limits are the controller's to keep; hitting a stop is not modelled
    joint.actfrclimited = mujoco.mjtLimited.mjLIMITED_FALSE
    joint.armature = arm.armature[i] * gap.armature_factor
    joint.damping = np.zeros_like(joint.damping)
    joint.frictionloss = 0.0
    if gap.friction is not None:
        damping = np.zeros_like(joint.damping)
        damping.flat[0] = gap.friction.viscous[i]
        joint.damping = damping
        joint.frictionloss = gap.friction.breakaway[i]
        joint.solref_friction = stiff(timestep)
        joint.solimp_friction = HARD
    if gap.backlash > 0.0:
        # A second hinge on the same axis that can turn only as far as the play; the rotor inertia sits before it.
        play = joint.parent.add_joint(
            name=joint.name + PLAY_SUFFIX, type=mujoco.mjtJoint.mjJNT_HINGE, axis=joint.axis, pos=joint.pos
        )
        play.limited = mujoco.mjtLimited.mjLIMITED_TRUE
        play.range = [-gap.backlash / 2.0, gap.backlash / 2.0]
        play.solref_limit = stiff(timestep)
        play.solimp_limit = HARD


def stiff(timestep: float) -> list[float]:
    """The hardest constraint that the time step carries: with MuJoCo's default, play and stiction would act as springs."""
    return [2.0 * timestep, 1.0]


def _add_payload(spec: mujoco.MjSpec, arm: Arm, gap: PlantGap) -> None:
    half_edge = 0.5 * (gap.payload_mass / 7800.0) ** (1.0 / 3.0)  # of a steel cube
    spec.body(arm.tool_frame).add_body(
        name="payload",
        pos=gap.payload_offset,
        ipos=[0.0, 0.0, 0.0],  # left out, MuJoCo takes `pos` a second time
        mass=gap.payload_mass,
        inertia=[gap.payload_mass * half_edge**2 * 2.0 / 3.0] * 3,
        explicitinertial=True,
    ).add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=[half_edge] * 3, rgba=[0.45, 0.3, 0.1, 1.0], contype=0, conaffinity=0)


def _add_scene(spec: mujoco.MjSpec) -> None:
    """Floor, light and sky; nothing here touches the dynamics."""
    spec.add_texture(
        name="sky",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_GRADIENT,
        rgb1=[0.93, 0.95, 0.97],
        rgb2=[0.75, 0.8, 0.86],
        width=256,
        height=256,
    )
    spec.worldbody.add_geom(
        name="floor",
        type=mujoco.mjtGeom.mjGEOM_PLANE,
        size=[3, 3, 0.1],
        rgba=[0.7, 0.72, 0.75, 1],
        contype=0,
        conaffinity=0,
    )
    spec.worldbody.add_light(pos=[1.0, -1.5, 3.0], dir=[-0.3, 0.45, -1.0], diffuse=[0.5, 0.5, 0.5])
    spec.visual.headlight.ambient = [0.3, 0.3, 0.3]
    spec.visual.headlight.diffuse = [0.2, 0.2, 0.2]
    spec.visual.global_.offwidth = 1280
    spec.visual.global_.offheight = 960
