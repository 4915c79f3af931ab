"""Counters of a process for Prometheus and OpenTelemetry."""
