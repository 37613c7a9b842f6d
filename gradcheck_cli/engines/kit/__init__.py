"""Shared code of the framework engines for formulas: lowering, walking, modes, devices."""
