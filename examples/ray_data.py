#!/usr/bin/env python3
"""Runs a plan over a folder of pictures with Ray Data and writes the results as Parquet files.

Usage: ray_data.py PLAN PICTURES RESULTS [WORKERS]

The plan takes grey pictures: one input, float32 [batch, 1, height, width] with levels in [0, 1], of any batch. A result
has the picture's path and the outputs. WORKERS run the plan, one processor each; one is left for reading. Needs: pip install "ray[data]" pillow.
"""
import os
import sys

import carnot
import numpy as np
import ray


def to_input(batch, name):
    """Grey levels [n, height, width] as the model's input."""
    levels = np.stack(list(batch["image"])).astype(np.float32) / 255
    return {"path": batch["path"], name: levels[:, None]}


def run(predictor, arguments, name, pictures, workers):
    """The data set of results. |predictor| is a class: each worker makes one of |arguments|."""
    return (
        ray.data.read_images(pictures, mode="L", include_paths=True)
        .map_batches(to_input, fn_args=(name,), batch_size=256)
        .map_batches(
            predictor,
            fn_constructor_args=arguments,
            batch_size=256,
            compute=ray.data.ActorPoolStrategy(size=workers),
        )
    )


def main():
    plan, pictures, results = sys.argv[1:4]
    workers = int(sys.argv[4]) if len(sys.argv) > 4 else max(1, (os.cpu_count() or 1) - 1)
    (name,) = carnot.Predictor(plan).model.inputs
    run(carnot.Predictor, (plan, 1), name, pictures, workers).write_parquet(results)


if __name__ == "__main__":
    main()
