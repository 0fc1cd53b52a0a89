"""Bags of recordings that are none: a mapping says which columns are what, and a bag is written for each run."""
