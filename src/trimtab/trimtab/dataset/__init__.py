"""Training sets from bags: rows at one rate, no gap bridged, split by run, with a card that says what is in them."""

from trimtab.dataset.loading import Dataset, DatasetRun, load_dataset

__all__ = ["Dataset", "DatasetRun", "load_dataset"]
