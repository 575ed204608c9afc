"""Durable termini: positions of receive links that outlive their links, fenced by versions (ES 4.6)."""
