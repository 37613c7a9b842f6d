"""Formulas as expressions that can be matched up to commutation and association, and rebuilt."""
