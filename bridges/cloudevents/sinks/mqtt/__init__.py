"""The MQTT sink, versions 3.1.1 and 5 (MQTT binding), based on paho's client."""
