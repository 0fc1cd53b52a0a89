"""Makes ready what the campaign runs on: arms with their models, plants and identified friction."""

import numpy as np

from trimtab.arm import load_arm
from trimtab.campaign.runner import Rig
from trimtab.errors import ConfigError
from trimtab.names import arm_names, needs_friction
from trimtab.plant import load_gap
from trimtab.residual.bundle import load_bundle
from trimtab.residual.runtime import ResidualModel
from trimtab.simulate import Progress, identify_friction


def choose_arms(text: str) -> list[str]:
    """`all`, or names or paths of contracts joined by commas."""
    if text.strip() == "all":
        return arm_names()
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if words.count(word) > 1:
            raise ConfigError(f"arm '{word}' is named twice in --arm; name each once")
    return words


def make_rig(arm_name: str, plant: str, model: str) -> Rig:
    """Loads an arm, its plant and its model; friction is left to `with_friction`."""
    arm = load_arm(arm_name)
    bundle = load_bundle(model, arm)
    bounds = np.array([bundle.manifest.bounds[joint] for joint in arm.joints])
    source = ResidualModel(bundle, arm)
    return Rig(arm, load_gap(plant, arm), bundle.manifest.controller, source, bounds, bundle.folder)


def with_friction(rig: Rig, progress: Progress | None = None) -> Rig:
    """The rig with its plant's friction identified, where the classical stack asks for it."""
    if not needs_friction(rig.controller):
        return rig
    return Rig(**{**vars(rig), "friction": identify_friction(rig.arm, rig.gap, progress)})
