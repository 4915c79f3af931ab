"""Sources that read from MQTT and Kafka: the only package that imports their clients."""
