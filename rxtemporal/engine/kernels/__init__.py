"""Kernels: numpy arrays in, arrays out; no state of their own, no payload, no Rx."""
