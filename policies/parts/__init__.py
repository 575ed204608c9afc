"""Validates the parts of a policy one by one, and turns pydantic's errors into sentences. Pure."""
