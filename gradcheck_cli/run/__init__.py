"""A run: the plan (which engine is asked what), the workers (pool) and the events (session)."""
