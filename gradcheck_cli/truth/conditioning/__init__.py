"""What rounding may cost a gradient."""
