"""Random input and damaged code, to find what the tests miss. See the Makefile, ``soak``."""
