"""Policy and credential files, read from this machine."""
