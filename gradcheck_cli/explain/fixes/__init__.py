"""Propose fixes: candidates from the catalogue, tried before they are shown."""
