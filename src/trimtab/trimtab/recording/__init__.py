"""Recordings that survive: bags that grow on disk as whole bags, and what they tell of themselves."""
