"""The commands `scopegate subscriptions ...`: clients of a manager's API, and trials of filters on records.

The room uses `manager` and `subscription` only for documents; each command is a process of its own.
"""
