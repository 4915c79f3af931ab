"""The computation behind operators: kernels on arrays, and steps with state. Private.

Nothing here knows Rx or Spark. A file in ``kernels`` or ``steps`` has the name of the file in
``operators`` that it serves.
"""
