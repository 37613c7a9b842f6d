"""The cost of rounding: how much it may change a gradient."""
