"""The sinks, one protocol per module, and the resolution, checks and dialing of their hosts."""
