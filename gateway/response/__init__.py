"""Response routing as pure functions: cookies, annotations, rewriting and restoring (RA 2)."""
