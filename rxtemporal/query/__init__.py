"""What users write: streams, ways in, applications, replay, adapters."""
