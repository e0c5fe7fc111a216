"""Published settings and defaults of every method, and how they fit the size of the data."""
