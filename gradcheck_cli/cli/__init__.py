"""The command line: parse, call, print, exit. No numerics, nothing heavy before it is needed."""
