"""Sources that read from brokers: everything that imports a broker's client."""
