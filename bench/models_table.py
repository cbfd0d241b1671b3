#!/usr/bin/env python3
"""Prints the records of bench/models.py as tables: FP32, --fp32=fast and BF16 for each number of threads.

Usage: models_table.py RECORDS.json
       models_table.py RECORDS.json PAGE KIND DATE MACHINE   puts them into PAGE instead, between <!-- bench KIND --> and
                                                             <!-- bench end -->, under a line with date and machine

Least milliseconds. Ratio: time of the best peer by Carnot's, by least times and by medians. % of limit: the limit of
Carnot's engine by its time. Error: relative L2 error against float64. Start: Carnot loads an engine, peers make a session;
first: from there to the first result, and the better peer's time by Carnot's.
"""
import json
import math
import pathlib
import re
import sys

# Title, Carnot's runner, its peers'.
TABLES = [("FP32", "carnot", ["ort", "ov"]), ("FP32, `--fp32=fast`", "carnot-fast", ["ort", "ov"]), ("BF16", "carnot-bf16", ["ov-bf16"])]
NAMES = {"ort": "ONNX Runtime", "ov": "OpenVINO", "ov-bf16": "OpenVINO"}


def geometric_mean(values) -> float:
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


def cell(record: dict, key: str, form: str = "") -> str:
    """A number of the record; three digits of it without |form|."""
    value = (record or {}).get(key)
    if value is None:
        return "-"
    return format(value, form or f".{max(0, 2 - math.floor(math.log10(max(value, 1e-3))))}f")


def table(heads: list, rows: list) -> list:
    return [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def times_of(ran: dict, own: str, rivals: list) -> list:
    """|ran|: {model: {runner: record}} of one number of threads, each with |own| and one of |rivals|."""
    rows, least, medians = [], {}, []
    for model, records in ran.items():
        mine, peers = records[own], [records[r] for r in rivals if r in records]
        least[model] = min(p["min_ms"] for p in peers) / mine["min_ms"]
        medians.append(min(p["median_ms"] for p in peers) / mine["median_ms"])
        limit = f"{100 * mine['limit_ms'] / mine['min_ms']:.0f}" if "limit_ms" in mine else "-"
        rows.append([model, *(cell(records.get(r), "min_ms") for r in (own, *rivals)), f"{least[model]:.2f}", f"{medians[-1]:.2f}", limit])
    worst = min(least, key=lambda m: least[m])
    heads = ["model", "Carnot ms", *(f"{NAMES[r]} ms" for r in rivals), "ratio", "by medians", "% of limit"]
    means = f"Geometric means over {len(rows)} models: **{geometric_mean(least.values()):.2f}**, by medians {geometric_mean(medians):.2f}; "
    return table(heads, rows) + [f"{means}least {least[worst]:.2f} ({worst}).", ""]


def start_of(record: dict, key: str) -> float | None:
    """Milliseconds to the first result: making what runs, and its first run."""
    record = record or {}
    return record[key] + record["first_ms"] if key in record and "first_ms" in record else None


def others_of(ran: dict, own: str, rivals: list) -> list:
    """Errors, start and memory."""
    rows, errors, starts = [], [], []
    for model, records in ran.items():
        mine, peers = records[own], [records.get(r) for r in rivals]
        if mine.get("relative_l2") and peers[0] and peers[0].get("relative_l2"):
            errors.append(mine["relative_l2"] / peers[0]["relative_l2"])
        first = [start_of(mine, "load_ms"), *(start_of(p, "build_ms") for p in peers)]
        rivals_first = [t for t in first[1:] if t]
        ratio = min(rivals_first) / first[0] if rivals_first and first[0] else None
        starts += [ratio] if ratio else []
        rows.append([model, *(cell(r, "relative_l2", ".1e") for r in (mine, *peers)), cell(mine, "build_ms", ".0f"), cell(mine, "load_ms"),
                     *(cell({"first": t}, "first") for t in first), cell({"ratio": ratio}, "ratio", ".1f"), *(cell(r, "peak_mb", ".0f") for r in (mine, *peers))])
    names = [NAMES[r] for r in rivals]
    heads = ["model", "error: Carnot", *names, "build ms", "load ms", "first ms: Carnot", *names, "ratio", "peak MB: Carnot", *names]
    means = f"Geometric mean of the error by {names[0]}'s: {geometric_mean(errors):.2f}; of the ratios of first results {geometric_mean(starts):.1f}."
    return table(heads, rows) + [means, ""]


def lines_of(records: list) -> list:
    lines = []
    for threads in sorted({r["threads"] for r in records}):
        ran: dict = {}
        for r in records:
            if r["threads"] == threads and "error" not in r:
                ran.setdefault(r["model"], {})[r["runner"]] = r
        for title, own, rivals in TABLES:
            rivals = [r for r in rivals if any(r in by_runner for by_runner in ran.values())]
            whole = {model: found for model, found in ran.items() if own in found and any(r in found for r in rivals)}
            if whole:
                lines += [f"{title}, {threads} thread{'s' if threads > 1 else ''}:", ""]
                lines += times_of(whole, own, rivals) + others_of(whole, own, rivals)
    failed = [r for r in records if "error" in r]
    return lines + [f"{r['model']}, {r['threads']} threads, {r['runner']} failed: {r['error']}" for r in failed]


def put_into(page: pathlib.Path, kind: str, lines: list) -> None:
    found = re.compile(rf"(<!-- bench {re.escape(kind)} -->\n).*?(<!-- bench end -->)", re.DOTALL)
    text, count = found.subn(lambda m: m[1] + "\n" + "\n".join(lines) + m[2], page.read_text())
    if count != 1:
        raise SystemExit(f"{page} has {count} places <!-- bench {kind} --> … <!-- bench end -->, needs one")
    page.write_text(text)


def main() -> int:
    if len(sys.argv) not in (2, 6):
        print(__doc__, file=sys.stderr)
        return 2
    with open(sys.argv[1]) as records:
        lines = lines_of([json.loads(line) for line in records if line.startswith("{")])
    if len(sys.argv) == 2:
        print("\n".join(lines))
    else:
        page, kind, date, machine = sys.argv[2:]
        put_into(pathlib.Path(page), kind, [f"Measured on {date}, {machine}.", "", *lines])
    return 0


if __name__ == "__main__":
    sys.exit(main())
