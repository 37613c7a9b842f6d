"""The types that every room shares. Imports nothing else of the project."""
