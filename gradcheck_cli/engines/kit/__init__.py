"""What the engines of frameworks share for formulas: lowering, walking, modes, devices."""
