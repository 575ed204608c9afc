"""The policy file as typed, frozen values: one module for each part of the file. Pure; uses nothing but pydantic."""
