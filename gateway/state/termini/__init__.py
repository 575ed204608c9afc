"""Durable termini: positions of receive links that outlive their links, fenced by tokens (AMQP 3.5.6, KM-11).

`store.Termini` is the protocol; the one in memory is for one process, the one in Redis for several.
"""
