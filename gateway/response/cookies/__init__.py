"""Cookies: made, signed, encrypted, read, and those that are kept in a store because they are too long. Pure."""
