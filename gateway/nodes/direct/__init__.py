"""The direct node: senders and receivers meet, and nothing is stored.

`node` passes messages on, `state` is its table of states, `endpoints` are the ends of its links, and `multicast` sends
every message to all receivers. May use what `nodes` may.
"""
