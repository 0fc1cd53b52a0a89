"""Bags as streams: storage of any kind, joint states decoded many at a time, rows matched by stamp, and what was wrong."""
