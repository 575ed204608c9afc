"""Plugins of pytest: tiers, order, conformance rows, shared servers, profiles of Hypothesis."""
