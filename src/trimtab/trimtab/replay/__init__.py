"""Replay of bags: recorded states through the same control step, for several residuals side by side, and a verdict."""
