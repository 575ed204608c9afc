"""Spark for tests of the pipeline: sessions, archives, jobs of their own."""
