"""One number with its error bar: differences, their noise, and the kind of point that they show."""
