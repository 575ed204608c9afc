"""The protocol bindings of CloudEvents 1.0.2: an event as the message of a protocol, binary or structured. Pure.

One module per protocol; `json_format` has the JSON event format. Raises `NotEncodable` for events that a protocol
cannot carry.
"""
