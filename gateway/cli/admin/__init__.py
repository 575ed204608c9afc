"""The commands that see and steer a running gateway through its admin API, each in the module of its name."""
