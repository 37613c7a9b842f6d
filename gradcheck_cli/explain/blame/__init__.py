"""Find the operation to blame for a finding, and describe it."""
