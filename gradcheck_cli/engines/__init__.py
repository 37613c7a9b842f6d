"""The engines behind one protocol, found through entry points (`registry`): one package a
framework, with the same inner file names; `kit`, `layer` and `trace` have what they share.
"""
