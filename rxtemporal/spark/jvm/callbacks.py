"""Calls of Spark's Java process into this one, which have to show a token."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQueryListener

_changing = threading.Lock()


def write_batches(frame: DataFrame, function: Callable[[DataFrame, int], Any]) -> Any:
    """Return a writer of a streaming DataFrame that calls a function here for each micro-batch."""
    _require_token(frame.sparkSession.sparkContext._gateway)
    return frame.writeStream.foreachBatch(function)


def add_listener(session: SparkSession, listener: StreamingQueryListener) -> None:
    """Let Spark call a listener here about the streaming queries of a session."""
    _require_token(session.sparkContext._gateway)
    session.streams.addListener(listener)


def _require_token(gateway: Any) -> None:
    """Let py4j's server in this process accept only calls with the token of its Java process.

    The server listens on a port of the loopback device, which all users of the machine can reach.
    pyspark starts it without a token: ``PythonClient.copyWith``, by which it tells Java the port,
    loses the one that Java had. So here Java gets a client that has it.
    """
    from py4j.clientserver import ClientServer
    from pyspark.java_gateway import ensure_callback_server_started

    token, parameters = gateway.gateway_parameters.auth_token, gateway.callback_server_parameters
    with _changing:
        if parameters.auth_token == token:
            return
        parameters.auth_token = token
        ensure_callback_server_started(gateway)
        if isinstance(gateway, ClientServer):  # the other client, of PYSPARK_PIN_THREAD, keeps it
            _set_client(gateway, token)


def _set_client(gateway: Any, token: str) -> None:
    """Let Java call this process with a token."""
    from py4j.java_gateway import JavaObject

    java, server = gateway.jvm, JavaObject("GATEWAY_SERVER", gateway._gateway_client)
    kind, without = java.py4j.CallbackClient, server.getCallbackClient()
    client = java.py4j.PythonClient(
        server.getGateway(),
        None,
        without.getPort(),
        without.getAddress(),
        kind.DEFAULT_MIN_CONNECTION_TIME,
        kind.DEFAULT_MIN_CONNECTION_TIME_UNIT,
        java.javax.net.SocketFactory.getDefault(),
        server,
        True,  # memory management: as in the client without a token
        0,  # no limit of time
        token,
    )
    field = server.getGateway().getClass().getDeclaredField("cbClient")
    field.setAccessible(True)
    field.set(server.getGateway(), client)
