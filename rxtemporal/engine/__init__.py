"""How operators compute: kernels on arrays, steps with state. Private; it knows no Rx and no Spark.

A file of ``kernels`` or ``steps`` has the name of the file in ``operators`` that it serves.
"""
