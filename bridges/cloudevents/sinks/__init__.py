"""The sinks, a protocol a module, and how their places are resolved, checked and connected to."""
