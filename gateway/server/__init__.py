"""The process and the gateway that it runs: listeners, limits, reloads, drain. It may import every other package."""
