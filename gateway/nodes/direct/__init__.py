"""The direct node, which passes messages from senders to receivers and stores nothing.

`node` passes messages on, `state` is its table of states, `endpoints` are the ends of its links, and `multicast` sends
every message to all receivers. It may import what `nodes` may.
"""
