#!/usr/bin/env python3
"""Draws the ten digits with a round pen as PNG files of different sizes and colours.

Usage: draw_digits.py FOLDER
"""
import pathlib
import sys

import numpy as np

# Strokes in a unit square, y downwards; an arc is (centre x, centre y, radius x, radius y, from, to) in turns.
STROKES = {
    0: [("arc", 0.5, 0.5, 0.27, 0.38, 0, 1)],
    1: [("line", 0.4, 0.3, 0.54, 0.12), ("line", 0.54, 0.12, 0.5, 0.88)],
    2: [("arc", 0.5, 0.32, 0.24, 0.2, 0.5, 1.1), ("line", 0.69, 0.44, 0.28, 0.87), ("line", 0.28, 0.87, 0.76, 0.87)],
    3: [("arc", 0.47, 0.31, 0.22, 0.19, 0.55, 1.25), ("arc", 0.47, 0.69, 0.25, 0.19, 0.75, 1.45)],
    4: [("line", 0.56, 0.12, 0.26, 0.6), ("line", 0.26, 0.6, 0.78, 0.6), ("line", 0.62, 0.36, 0.62, 0.88)],
    5: [("line", 0.72, 0.13, 0.34, 0.13), ("line", 0.34, 0.13, 0.32, 0.46), ("arc", 0.48, 0.65, 0.24, 0.22, 0.65, 1.4)],
    6: [("line", 0.6, 0.12, 0.36, 0.45), ("line", 0.36, 0.45, 0.29, 0.66), ("arc", 0.5, 0.67, 0.21, 0.2, 0, 1)],
    7: [("line", 0.26, 0.14, 0.74, 0.14), ("line", 0.74, 0.14, 0.44, 0.88), ("line", 0.36, 0.5, 0.7, 0.5)],
    8: [("arc", 0.53, 0.29, 0.15, 0.17, 0, 1), ("arc", 0.48, 0.69, 0.17, 0.2, 0, 1)],
    9: [("arc", 0.5, 0.33, 0.21, 0.2, 0, 1), ("line", 0.71, 0.33, 0.66, 0.62), ("line", 0.66, 0.62, 0.46, 0.88)],
}
# height, width, pen in parts of the height, colours of paper and ink
STYLES = [(28, 28, 0.14, (0, 0, 0), (255, 255, 255)), (96, 80, 0.15, (255, 255, 255), (20, 20, 20)), (200, 160, 0.14, (250, 240, 200), (30, 40, 160)),
          (64, 64, 0.14, (30, 60, 30), (240, 240, 120)), (320, 256, 0.13, (235, 235, 235), (180, 20, 20))]


def points(stroke: tuple) -> np.ndarray:
    t = np.linspace(0, 1, 200)
    if stroke[0] == "line":
        _, x0, y0, x1, y1 = stroke
        return np.stack([x0 + (x1 - x0) * t, y0 + (y1 - y0) * t], 1)
    _, cx, cy, rx, ry, start, end = stroke
    angle = 2 * np.pi * (start + (end - start) * t)
    return np.stack([cx + rx * np.cos(angle), cy + ry * np.sin(angle)], 1)


def draw(digit: int, height: int, width: int, pen: float, paper: tuple, ink: tuple) -> np.ndarray:
    path = np.concatenate([points(s) for s in STROKES[digit]]) * [width, height]
    y, x = np.mgrid[0:height, 0:width] + 0.5
    distance = np.full((height, width), np.inf)
    for px, py in path:
        distance = np.minimum(distance, np.hypot(x - px, y - py))
    cover = np.clip(pen * height / 2 - distance + 0.5, 0, 1)[..., None]
    return np.rint(np.array(paper) * (1 - cover) + np.array(ink) * cover).astype(np.uint8)


def main() -> int:
    from skimage.io import imsave

    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for digit in STROKES:
        imsave(folder / f"{digit}.png", draw(digit, *STYLES[digit % len(STYLES)]), check_contrast=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
