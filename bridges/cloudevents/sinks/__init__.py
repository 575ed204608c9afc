"""The sinks: each sends events to one subscription's sink, in one protocol, and reports an answer for each attempt.

`interface` is the protocol between delivery and sinks; `factory` makes a subscription's sink if the policy allows
it; `dialer` connects only to allowed addresses. The room uses `events.bindings`, `delivery.answers` and `subscription`.
A protocol's client library is imported only by its own module or folder.
"""
