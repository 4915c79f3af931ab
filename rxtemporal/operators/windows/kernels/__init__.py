"""Kernels of windows: compiled functions over arrays."""
