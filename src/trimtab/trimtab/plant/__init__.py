"""Simulated arms: MuJoCo models made from the arm's own URDF, with a named gap between model and plant."""

from trimtab.plant.gap import PlantGap, load_gap
from trimtab.plant.simulator import Plant

__all__ = ["Plant", "PlantGap", "load_gap"]
