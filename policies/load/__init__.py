"""Turns a policy file's text into a checked `Policy`, or reports every mistake with its place."""
