"""What every number of a program may be over boxes of inputs, rule by rule."""
