"""The commands `scopegate subscriptions ...`: clients of a manager's API, and a filter tried on records of a topic.

The room uses `manager` and `subscription` only for documents; each command is a process of its own.
"""
