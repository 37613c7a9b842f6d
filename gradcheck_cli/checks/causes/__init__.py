"""Why a gradient of a layer is wrong, proven by a run, and what to write instead."""
