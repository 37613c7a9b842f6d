"""The truth about formulas: certificates first, differences where there are none."""
