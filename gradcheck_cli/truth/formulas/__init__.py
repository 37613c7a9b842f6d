"""The truth of formulas: certificates first, finite differences where there are none."""
