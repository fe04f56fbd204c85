"""The version, where every room can read it without importing the house."""

__version__ = "0.1.0"
