"""Who examines the specs of a run: the workers of this machine, or those of a cluster."""
