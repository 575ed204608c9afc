"""The requests of the admin API, each answered with a document of `gateway.admin.documents`."""
