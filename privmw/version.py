"""The version, in a module that every other can import without importing the package."""

__version__ = "0.1.0"
