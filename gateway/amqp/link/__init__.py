"""Links: attach, credit, transfers, outcomes and detach (part 2, 2.6).

A link (`link.Link`) is a part of an engine: it calls proton for what concerns one link, and the handler that a node
gave it (`handlers`). Uses codec, message, and of the engine its port, its C code and proton's data; knows no nodes.
"""
