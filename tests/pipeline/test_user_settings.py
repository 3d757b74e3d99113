"""What the user has set for Spark is found, and stands above the pipeline's defaults."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from byway.pipeline.pipeline_errors import SessionError
from byway.pipeline.user_settings import java_options, user_settings

ROOT = Path(__file__).parents[2]

STARTED = """
import json, os
from byway.pipeline.spark_session import open_session

with open_session() as spark:
    java = spark._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    told = {
        "settings": dict(spark.sparkContext.getConf().getAll()),
        "java": list(java.getInputArguments()),
        "python": spark.sparkContext.pythonExec,
        "zone": spark.conf.get("spark.sql.session.timeZone"),
    }
told["environment"] = os.environ.get("PYSPARK_PYTHON")
print(json.dumps(told))
"""
IN_A_CONTEXT = """
from pyspark import SparkContext
from byway.pipeline.java import java_home
from byway.pipeline.spark_session import open_session

with java_home():
    context = SparkContext("local[1]", "theirs")
with open_session() as spark:
    assert spark.sparkContext is context
    assert spark.range(3).count() == 3
assert context.parallelize([1, 2]).count() == 2
print("left running")
"""


def test_the_format_of_the_defaults(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "# a comment\n! another\n\n"
        "spark.driver.memory   2g\n"
        "spark.ui.enabled=true\n"
        "  spark.a : one two \n"
        "spark.b one,\\\n    two\n"
        "spark.c\n"
        r"spark.d C\:\\x" + "\n"
    )
    assert user_settings({"SPARK_CONF_DIR": str(tmp_path)}) == {
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "true",
        "spark.a": "one two",
        "spark.b": "one,two",
        "spark.c": "",
        "spark.d": r"C:\x",
    }


def test_later_places_stand_above_earlier_ones(tmp_path: Path) -> None:
    conf = tmp_path / "conf"
    conf.mkdir()
    environment = {"SPARK_HOME": str(tmp_path), "SPARK_DRIVER_MEMORY": "1g", "MASTER": "yarn"}
    assert user_settings(environment) == {"spark.driver.memory": "1g", "spark.master": "yarn"}
    (conf / "spark-defaults.conf").write_text("spark.driver.memory 2g\nspark.x here\n")
    assert user_settings(environment)["spark.driver.memory"] == "2g"
    environment["PYSPARK_SUBMIT_ARGS"] = (
        "--driver-memory 3g --conf spark.y=a=b -c 'spark.z=1 2' --name=mine pyspark-shell"
    )
    assert user_settings(environment) == {
        "spark.driver.memory": "3g",
        "spark.master": "yarn",
        "spark.app.name": "mine",
        "spark.x": "here",
        "spark.y": "a=b",
        "spark.z": "1 2",
    }
    other = tmp_path / "other.conf"
    other.write_text("spark.w 1\n")
    environment["PYSPARK_SUBMIT_ARGS"] = f"--properties-file {other} pyspark-shell"
    assert user_settings(environment) == {
        "spark.driver.memory": "1g",
        "spark.master": "yarn",
        "spark.w": "1",
    }


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SessionError, match=r"PYSPARK_SUBMIT_ARGS cannot be read \(No closing"):
        user_settings({"PYSPARK_SUBMIT_ARGS": "--conf 'spark.x=1"})
    with pytest.raises(SessionError, match=r"gone\.conf: cannot be read"):
        user_settings({"PYSPARK_SUBMIT_ARGS": f"--properties-file {tmp_path}/gone.conf"})


def test_an_address_of_this_machine_is_the_driver_s() -> None:
    found = user_settings({"SPARK_LOCAL_IP": "10.0.0.7", "SPARK_CONF_DIR": "/nowhere"})
    assert found == {"spark.driver.host": "10.0.0.7", "spark.driver.bindAddress": "10.0.0.7"}


def test_options_of_every_java() -> None:
    assert java_options({"SPARK_SUBMIT_OPTS": "-Da=1", "JAVA_TOOL_OPTIONS": "-Db=2"}) == (
        "-Da=1 -Db=2"
    )


def run(program: str, **environment: str) -> str:
    command = [sys.executable, "-c", program]
    ours = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    done = subprocess.run(
        command, env=ours | environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


def test_a_session_that_is_started_has_the_user_s_settings(tmp_path: Path) -> None:
    (tmp_path / "spark-defaults.conf").write_text(
        "spark.master local[1]\n"
        "spark.app.name theirs\n"
        "spark.driver.memory 640m\n"
        "spark.driver.extraJavaOptions -Dtheirs=1 -Darrow.enable_null_check_for_get=true "
        "-XX:+UseSerialGC\n"
        "spark.ui.enabled true\n"
        "spark.ui.port 0\n"
        "spark.sql.session.timeZone Asia/Tokyo\n"
        f"spark.pyspark.python {sys.executable}\n"
    )
    told = json.loads(run(STARTED, SPARK_CONF_DIR=str(tmp_path), PYSPARK_PYTHON="/no/python"))
    settings = told["settings"]
    assert settings["spark.master"] == "local[1]"
    assert settings["spark.app.name"] == "theirs"
    assert settings["spark.ui.enabled"] == "true"
    assert "-Xmx640m" in told["java"]
    assert "-Dtheirs=1" in told["java"]
    null_check = [o for o in told["java"] if o.startswith("-Darrow.enable_null_check")]
    assert null_check[-1].endswith("=true")  # Java takes the last
    assert "-Darrow.enable_unsafe_memory_access=true" in told["java"]
    assert "-XX:+UseSerialGC" in told["java"]
    assert "-XX:+UseParallelGC" not in told["java"]  # Java starts with one only
    assert told["zone"] == "Asia/Tokyo"
    assert told["python"] == sys.executable
    assert told["environment"] == "/no/python"  # as it was


def test_a_context_without_a_session_is_taken_and_not_stopped() -> None:
    assert run(IN_A_CONTEXT, SPARK_LOCAL_IP="127.0.0.1", PYSPARK_PYTHON=sys.executable) == (
        "left running"
    )
