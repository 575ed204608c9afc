"""The HTTP sink (HTTP binding; Web Hooks for Event Delivery): requests, consent, logins and the meaning of answers.

Only this room imports aiohttp's client. `factory` shares one client among the sinks that a rule of the policy allows.
"""
