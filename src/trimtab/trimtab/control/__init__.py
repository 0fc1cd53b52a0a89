"""Classical control: laws, compensators and the behaviours for when things go wrong."""

from trimtab.control.base import ControlLaw, Desired
from trimtab.control.behaviours import Damp, Hold
from trimtab.control.stack import ControllerStack, make_controller

__all__ = ["ControlLaw", "ControllerStack", "Damp", "Desired", "Hold", "make_controller"]
