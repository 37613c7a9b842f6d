"""A run: what is asked of which engine (plan), the workers (pool), the events (session)."""
