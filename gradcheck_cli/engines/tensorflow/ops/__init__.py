"""The op table in TensorFlow's own words: what a user would call. One file a family of operations.

TensorFlow is not imported here: each function is given it as its first argument.
"""

from gradcheck_cli.engines.kit.lowerings import gathered

TABLE = gathered(__name__, __path__)
