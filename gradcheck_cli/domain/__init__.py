"""The types that all rooms share. Imports nothing else of the project."""
