"""`python -m labelproof` is `labelproof`."""

from labelproof.cli import main

if __name__ == "__main__":
    main()
