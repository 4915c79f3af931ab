"""Sources and sinks of MQTT and Kafka: the only package that imports their clients."""
