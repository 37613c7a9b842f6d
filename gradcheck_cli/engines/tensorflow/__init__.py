"""TensorFlow and Keras: formulas and layers."""
