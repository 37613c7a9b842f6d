"""The cost of rounding: how far rounding may change a gradient."""
