"""Mutation runs: break the product in one place at a time and see whether the tests notice (`make mutants`)."""
