"""Consumer groups of links, and durable positions (ES 4, ES-3.2-7; KM-10, KM-11).

`membership` reads what an attach asks for, `assignor` assigns the partition, `owner` and `shared` handle the links of a
group, `checkpointer` stores positions, `group_start` stores when a group began. Uses `consume` and `admin` of the
bridge, and the gateway's leases and termini.
"""
