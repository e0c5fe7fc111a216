"""Examples, labels and tasks: what is read, checked once, and what a method may see of it."""
