"""Cumulet: an OpenStack-compatible compute cloud in one process."""

__version__ = "0.1.0"
