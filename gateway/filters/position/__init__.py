"""Positions in an event log, and the positions in filters: where reading begins and ends (ES 5.1, 5.2).

Pure: uses `gateway.filters.predicate`.
"""
