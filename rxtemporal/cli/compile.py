"""The command ``compile``: the machine code of a query, made before the query runs."""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING

from rxtemporal.cli.options import add_plan_options
from rxtemporal.errors import ArgumentError

if TYPE_CHECKING:
    from rxtemporal.operators.plan import Node

DESCRIPTION = (
    "Compiles the kernels of a query, or of each query of an application, over rows that are made "
    "up. The machine code is kept beside the package, and is there when the environment is packed "
    "or copied into an image. It is made for one kind of processor: NUMBA_CPU_NAME names another."
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command to its parser."""
    inputs = "recordings or files with the fields of the streams; their rows are not used"
    add_plan_options(parser, inputs)


def run(options: argparse.Namespace) -> int:
    """Compile, tell where the code is, and return the exit status."""
    from rxtemporal.engine.kernels.compiled import find_code_folder
    from rxtemporal.query.compilation import compile_plan

    nodes = _list_nodes(options)
    begin = time.process_time()
    for _ in compile_plan(nodes):
        pass
    folder = find_code_folder()
    operators = sum(node.operator is not None for node in nodes)
    print(
        f"{operators} operators: {folder.compiled} kernels compiled, "
        f"{time.process_time() - begin:.1f} s"
    )
    print(f"machine code for {folder.cpu}, for example in {folder.path}")
    if not folder.lasts:
        print("the folder is temporary. Hint: let NUMBA_CACHE_DIR name one that can be written to.")
    return 0 if folder.lasts else 1


def _list_nodes(options: argparse.Namespace) -> list[Node]:
    from rxtemporal.cli.inputs import open_plans

    plans = open_plans(options)
    nodes = [node for _, stream in plans for node in stream._node.list_nodes()]
    for node in nodes:
        if node.source is not None and node.schema is None:
            raise ArgumentError(
                f"the fields of {node.source.name!r} are unknown. Hint: --input names a file or a "
                "recording that has them; one row is enough."
            )
    return nodes
