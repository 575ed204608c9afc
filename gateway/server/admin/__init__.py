"""The admin API of the running gateway: its port, and what the handlers of `gateway.admin` read and change."""
