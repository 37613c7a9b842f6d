"""Which operation is to blame for a finding, and how it is said."""
