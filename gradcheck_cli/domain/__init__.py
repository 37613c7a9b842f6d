"""The words that every room speaks in. Imports nothing of the project."""
