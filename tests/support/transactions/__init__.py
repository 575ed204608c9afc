"""Peers that work in transactions."""
