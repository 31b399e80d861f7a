"""Kinds: what the tables of reports mean; one module and one line each, the first that matches a block takes it."""
