"""Repeats one recorded run exactly: which operations err, and which of them is to blame."""
