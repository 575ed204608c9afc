"""Questions to a cluster: topics, offsets, samples; and the embedded cluster for quick starts."""
