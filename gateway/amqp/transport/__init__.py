"""Sockets, TLS and the first eight bytes: what carries an engine (part 2, 2.2; part 5)."""
