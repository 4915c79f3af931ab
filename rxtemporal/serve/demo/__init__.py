"""Demonstration of the service: a house of sensors, simulated devices, and a page to look at."""
