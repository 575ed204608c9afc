"""The sinks: each sends events to one subscription's sink, in one protocol, and reports an answer for each attempt.

`factory` makes a subscription's sink if the policy allows it; `common` has what sinks of every protocol use, such as
connections to allowed addresses only. The room uses `events.bindings`, `delivery`, `model` and `subscription`.
A protocol's client library is imported only by its own module or folder.
"""
