"""The HTTP sink (HTTP binding; Web Hooks for Event Delivery): requests, consent, logins and the meaning of answers.

`response` reads answers with llhttp and `request` encodes requests, both without a socket; `connection` and `pool` have
the sockets. Only this room imports httptools. `factory` shares one client among the sinks of a rule of the policy.
"""
