"""The reference engine, as an engine."""
