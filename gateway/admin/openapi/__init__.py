"""The published description of the admin API (OpenAPI 3.1): the shapes of its documents, and its operations."""
