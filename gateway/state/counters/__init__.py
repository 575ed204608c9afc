"""How often a route was used, counted once for all gateways (RA 2.3.2)."""
