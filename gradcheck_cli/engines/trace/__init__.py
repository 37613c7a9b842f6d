"""One recorded run, done again exactly: which operations err, and which of them is to blame."""
