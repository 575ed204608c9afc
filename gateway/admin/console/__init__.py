"""The console: one page with its scripts and style, served from this package; it uses the admin API alone."""
