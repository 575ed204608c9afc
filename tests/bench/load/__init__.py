"""The load generator and the peers that it plays."""
