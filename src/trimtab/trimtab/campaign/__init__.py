"""The fault campaign: all that can go wrong, in simulation, against the classical run under the same fault."""
