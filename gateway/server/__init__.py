"""The process and the gateway it runs: listeners, limits, tasks, reloads. The only room that knows all others."""
