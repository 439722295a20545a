"""Other users of the machine reach the ports of Spark's driver, and get no answer without its secret."""

from __future__ import annotations

from typing import Any

import psutil
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def _ask(spark: SparkSession, authenticate: bool) -> Any:
    """Connects to the driver as another program of Spark does; returns the name of the endpoint reached."""
    context = spark.sparkContext
    java: Any = context._jvm
    driver = context._jsc.sc()
    conf = driver.conf().clone().set("spark.authenticate", str(authenticate).lower())
    # In the driver's own JVM, it finds the driver's secret, if it may use one.
    security = java.org.apache.spark.SecurityManager
    by_default = [getattr(security, f"$lessinit$greater$default${number}")() for number in (2, 3)]
    manager = security(conf, *by_default)
    rpc = java.org.apache.spark.rpc
    stranger = rpc.RpcEnv.create("stranger", "127.0.0.1", 0, conf, manager, True)
    try:
        address = rpc.RpcAddress("127.0.0.1", int(conf.get("spark.driver.port")))
        return stranger.setupEndpointRef(address, "HeartbeatReceiver").name()
    finally:
        stranger.shutdown()


@pytest.mark.attack("Spark without the secret")
def test_only_a_connection_with_the_secret_is_answered(spark: SparkSession) -> None:
    assert _ask(spark, authenticate=True) == "HeartbeatReceiver"
    with pytest.raises(Py4JJavaError):
        _ask(spark, authenticate=False)


def test_no_command_line_has_the_secret(spark: SparkSession) -> None:
    java: Any = spark.sparkContext._jvm
    user = java.org.apache.hadoop.security.UserGroupInformation.getCurrentUser()
    secret = bytes(user.getCredentials().getSecretKey(java.org.apache.hadoop.io.Text("sparkCookie"))).decode()
    assert len(secret) >= 32
    lines = [" ".join(each.info["cmdline"] or ()) for each in psutil.process_iter(["cmdline"])]
    assert not any(secret in line for line in lines)
