"""A run: the questions to each engine (plan), the workers (pool), the events (session)."""
