"""What to write instead: candidates from the catalogue, tried before they are shown."""
