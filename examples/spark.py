#!/usr/bin/env python3
"""Runs a plan over a folder of pictures with Spark and writes the results as Parquet files.

Usage: spark.py PLAN PICTURES RESULTS [MASTER]      MASTER: local[2,4]: two workers, a task is tried four times

The plan takes grey pictures: one input, float32 [batch, 1, height, width] with levels in [0, 1], of any batch. A result
has the picture's path and the outputs. Needs: pip install pyspark pandas pyarrow pillow, and Java 17.
"""
import io
import sys

import carnot
import numpy as np
from PIL import Image
from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.functions import pandas_udf
from pyspark.sql.types import ArrayType, FloatType, StructField, StructType


@pandas_udf(ArrayType(FloatType()))
def to_input(files):
    """Grey levels of encoded pictures."""
    return files.map(lambda data: (np.asarray(Image.open(io.BytesIO(data)).convert("L"), np.float32) / 255).ravel())


def run(session, make_predictor, outputs, shape, pictures):
    """The table of results; |outputs|: the names of outputs with one dimension beside the batch."""
    kind = StructType([StructField(name, ArrayType(FloatType())) for name in outputs])
    predict = predict_batch_udf(make_predictor, return_type=kind, batch_size=256, input_tensor_shapes=[shape])
    files = session.read.format("binaryFile").load(pictures)
    return files.select("path", predict(to_input("content")).alias("outputs")).select("path", "outputs.*")


def main():
    plan, pictures, results = sys.argv[1:4]
    builder = SparkSession.builder.master(sys.argv[4] if len(sys.argv) > 4 else "local[2,4]")
    # Small files: a task takes many of them.
    session = builder.config("spark.sql.files.openCostInBytes", "65536").getOrCreate()
    predictor = carnot.Predictor(plan, threads=1)
    (dims,) = predictor.model.inputs.values()
    run(session, lambda: predictor, list(predictor.model.outputs), list(dims[1:]), pictures).write.parquet(results)
    session.stop()


if __name__ == "__main__":
    main()
