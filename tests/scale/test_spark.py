"""examples/spark.py as it is on local[2], and a worker that is killed midway."""

import os
import signal

import carnot
import pytest
from conftest import check

pytest.importorskip("pyspark", reason="PySpark is not installed: make test-scale installs it")
from pyspark.sql import SparkSession  # noqa: E402


@pytest.fixture(scope="module")
def session():
    made = (
        SparkSession.builder.master("local[2,4]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.sql.files.openCostInBytes", "1000")  # small files: about ten tasks of all
        .config("spark.sql.files.maxPartitionBytes", "2m")
        .getOrCreate()
    )
    made.sparkContext.setLogLevel("OFF")
    yield made
    made.stop()


def test_rows(session, plan, pictures, wanted):
    import spark

    predictor = carnot.Predictor(plan, threads=1)
    check(spark.run(session, lambda: predictor, ["y"], [1, 28, 28], str(pictures)).collect(), wanted)


def test_a_killed_worker(session, plan, pictures, wanted, tmp_path):
    """A worker kills itself in its third batch; the task runs again and every row is there once."""
    import spark

    marker, path = str(tmp_path / "killed"), str(plan)

    def make():
        predictor = carnot.Predictor(path, threads=1)
        calls = []

        def predict(x):
            calls.append(1)
            if len(calls) == 3 and not os.path.exists(marker):
                os.close(os.open(marker, os.O_CREAT))
                os.kill(os.getpid(), signal.SIGKILL)
            return predictor(x)

        return predict

    check(spark.run(session, make, ["y"], [1, 28, 28], str(pictures)).collect(), wanted)
    assert os.path.exists(marker)
