"""Links: attach, credit, transfers, outcomes and detach (part 2, 2.6).

A link (`link.Link`) is a part of an engine: it makes proton's calls for one link, and calls the handler of a node
(`handlers`). Uses codec, message and proton; it knows its engine only as `port.EnginePort`, and no nodes.
"""
