"""Second and third derivatives of layers, in every composition that an engine has."""
