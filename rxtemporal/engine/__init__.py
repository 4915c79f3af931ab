"""Kernels on arrays and steps with state, by which operators compute. Private; no Rx, no Spark.

A file of ``kernels`` or ``steps`` has the name of the file in ``operators`` that it serves.
"""
