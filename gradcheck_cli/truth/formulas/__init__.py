"""The truth of formulas: certificates first, finite differences for the rest."""
