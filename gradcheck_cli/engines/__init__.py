"""The engines, which share one protocol and are found through entry points (`registry`). There is
one package for each framework, with the same inner file names; `kit`, `layer` and `trace` have
shared code."""
