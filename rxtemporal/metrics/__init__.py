"""Metrics of a process for Prometheus and OpenTelemetry, computed at each scrape.

``rxtemporal.metrics.prometheus.register`` and ``rxtemporal.metrics.opentelemetry.instrument`` take
running processes. Importing this package imports neither client library.
"""
