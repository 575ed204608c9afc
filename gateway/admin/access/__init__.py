"""Who may use the admin API: users of this machine, tokens, client certificates, and sessions of browsers."""
