"""The commands but `bench`; `labelproof.__main__` puts all together."""
