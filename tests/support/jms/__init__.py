"""Qpid JMS, unmodified, in one Java for all tests of a worker."""
