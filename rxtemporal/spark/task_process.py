"""The Python process of a Spark task.

pyspark collects garbage after each task, and goes through all objects of the process for it. Those
of the imported modules alone are some hundred thousand, which takes 0.1 s of a core; a micro-batch
has five such tasks.
"""

from __future__ import annotations

import gc
import sys

_modules = 0


def in_task() -> bool:
    """Return True if Spark runs a task in this process."""
    context = sys.modules.get("pyspark.taskcontext")
    return context is not None and context.TaskContext.get() is not None


def spare_collections() -> None:
    """Leave what is there out of this process's collections, if modules have been imported since.

    It is called at the end of a task, and does nothing in a process that is none of Spark's. What
    nothing refers to any more is freed as before, but for objects that refer to each other.
    """
    global _modules
    if _modules == len(sys.modules) or not in_task():
        return
    _modules = len(sys.modules)
    gc.collect()
    gc.freeze()
