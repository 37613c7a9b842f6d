"""The number systems that a program can run in."""
