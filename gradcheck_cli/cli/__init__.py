"""The command line: parse, call, print, exit. It computes nothing, and imports heavy modules only
when they are needed."""
