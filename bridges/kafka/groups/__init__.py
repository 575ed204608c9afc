"""Consumer groups of links, and durable positions (ES 4, ES-3.2-7; KM-10, KM-11).

`membership` says what an attach asks for, `assignor` decides on the partition, `owner` and `shared` handle the links of
a group, `checkpointer` stores positions. Uses `consume` and `admin` of the bridge, and the gateway's leases and
termini.
"""
