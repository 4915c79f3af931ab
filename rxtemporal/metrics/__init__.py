"""Counters of a process for Prometheus and OpenTelemetry, read when they are asked for.

``rxtemporal.metrics.prometheus.register`` and ``rxtemporal.metrics.opentelemetry.instrument`` take
running processes. Importing this package imports neither client library.
"""
