#!/usr/bin/env python3
"""Serves a plan by HTTP with Ray Serve. Requests that arrive together are one batch.

Usage: ray_serve.py PLAN SHAPE [REPLICAS]       for example: ray_serve.py digits.plan 1,28,28

The body of a request is one row: float32 numbers of SHAPE. The answer has those of the first output.
Needs: pip install "ray[serve]".
"""
import asyncio
import sys
import time

import carnot
import numpy as np
from ray import serve
from starlette.responses import Response


@serve.deployment(max_ongoing_requests=64)
class Served:
    def __init__(self, predictor, shape):
        self.predictor, self.shape = predictor, shape

    @serve.batch(max_batch_size=8, batch_wait_timeout_s=0)
    async def predict(self, rows):
        return await asyncio.to_thread(self.predictor, rows)

    async def __call__(self, request):
        body = await request.body()
        if len(body) != 4 * np.prod(self.shape):
            return Response(f"the body has {len(body)} bytes, must be float32 {self.shape}", 400)
        outputs = await self.predict(np.frombuffer(body, np.float32).reshape(self.shape))
        return Response(next(iter(outputs.values())).tobytes(), media_type="application/octet-stream")


def start(predictor, shape, replicas):
    serve.run(Served.options(num_replicas=replicas, ray_actor_options={"num_cpus": 1}).bind(predictor, shape))


def main():
    plan, shape = sys.argv[1], tuple(map(int, sys.argv[2].split(",")))
    start(carnot.Predictor(plan, threads=1), shape, int(sys.argv[3]) if len(sys.argv) > 3 else 2)
    print("serving on http://127.0.0.1:8000", flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main()
