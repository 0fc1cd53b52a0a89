"""What stands between a learned torque and the arm: bounds, energy tank, evidence, abort thresholds."""

from trimtab.safety.filter import Filtered, FilterRows, SafetyFilter
from trimtab.safety.limits import Limit, limit_names

__all__ = ["FilterRows", "Filtered", "Limit", "SafetyFilter", "limit_names"]
