"""Messages that each name their destination: anonymous termini, responses, requests that cross scopes (RA 2)."""
