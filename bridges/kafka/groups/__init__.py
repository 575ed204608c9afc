"""Consumer groups of links (ES 4; KM-10).

`membership` reads what an attach asks for, `assignor` assigns the partition, `owner` and `shared` handle the links of a
group. Uses `links` and `clusters` of the bridge, and the gateway's leases.
"""
