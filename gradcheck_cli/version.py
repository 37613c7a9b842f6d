"""The version of gradcheck. Imports nothing, so that every room may ask for it."""

VERSION = "0.1.0"
