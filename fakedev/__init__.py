"""fakedev: accelerators that are not there, and that everything believes."""

__version__ = "0.3.0"
