"""The MQTT sink, versions 3.1.1 and 5 (MQTT binding): `connection` drives paho's client from the event loop.

Only this room imports paho.
"""
