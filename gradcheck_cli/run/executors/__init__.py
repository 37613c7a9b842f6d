"""Executors examine the specs of a run: on this machine, or on a cluster."""
