// The roofline plot: FLOP/s of each layer over its FLOP per byte, below what the machine can do.
function roofs(machine) {
  const best = new Map();
  for (const p of machine.peaks) if (p.gops_all_threads > (best.get(p.type) || 0)) best.set(p.type, p.gops_all_threads);
  return { compute: [...best].map(([type, gops]) => ({ type, gops })), memory: machine.levels.map((l) => ({ name: l.name, gbs: l.read_gbs_all_threads || l.copy_gbs_all_threads })).filter((l) => l.gbs > 0) };
}

function showRoofline() {
  const e = state.engine, box = byId("roofline-body");
  const points = e.layers.filter((l) => timeOf(l) > 0 && l.flops > 0 && l.bytes > 0).map((l) => ({ l, x: l.flops / l.bytes, y: l.flops / timeOf(l) / 1e3 }));
  if (!points.length) return fill(box, element("p", { class: "note" }, "No layer has both arithmetic and a time."));
  const { compute, memory } = e.machine ? roofs(e.machine) : { compute: [], memory: [] };
  const used = compute.filter((c) => ["f32", "f16", "bf16", "int8"].includes(c.type));
  const W = box.clientWidth > 620 ? 1000 : 460, H = box.clientWidth > 620 ? 420 : 380, M = { l: 58, r: 14, t: 14, b: 40 };
  const xs = points.map((p) => p.x), ys = points.map((p) => p.y).concat(used.map((c) => c.gops));
  const lx = [Math.floor(Math.log10(Math.min(...xs, 0.5))), Math.ceil(Math.log10(Math.max(...xs, 50)))];
  const ly = [Math.floor(Math.log10(Math.min(...ys))), Math.ceil(Math.log10(Math.max(...ys)) + 0.1)];
  const X = (v) => M.l + ((Math.log10(v) - lx[0]) / (lx[1] - lx[0])) * (W - M.l - M.r), Y = (v) => H - M.b - ((Math.log10(v) - ly[0]) / (ly[1] - ly[0])) * (H - M.t - M.b);
  const svg = element("svg", { viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "Roofline plot; the table of layers holds the same numbers" });
  for (let k = lx[0]; k <= lx[1]; k++) svg.append(element("line", { class: "axis", x1: X(10 ** k), x2: X(10 ** k), y1: M.t, y2: H - M.b }), element("text", { x: X(10 ** k), y: H - M.b + 16, "text-anchor": "middle" }, String(+(10 ** k).toPrecision(1))));
  for (let k = ly[0]; k <= ly[1]; k++) svg.append(element("line", { class: "axis", y1: Y(10 ** k), y2: Y(10 ** k), x1: M.l, x2: W - M.r }), element("text", { x: M.l - 7, y: Y(10 ** k) + 4, "text-anchor": "end" }, String(+(10 ** k).toPrecision(1))));
  svg.append(element("text", { x: (W + M.l) / 2, y: H - 6, "text-anchor": "middle" }, "FLOP per byte"), element("text", { transform: `translate(13 ${H / 2}) rotate(-90)`, "text-anchor": "middle" }, "GFLOP/s"));
  const top = Math.max(...used.map((c) => c.gops), 0), left = 10 ** lx[0], right = 10 ** lx[1];
  memory.forEach((m, i) => {
    const knee = Math.min(right, top / m.gbs), start = Math.max(left, 10 ** ly[0] / m.gbs);
    if (knee <= start) return;
    svg.append(element("path", { class: "roof", "stroke-dasharray": i + 1 < memory.length ? "4 4" : null, d: `M${X(start)},${Y(start * m.gbs)}L${X(knee)},${Y(knee * m.gbs)}` }));
    const at = start * 1.25 * 1.9 ** i;
    const slope = (-Math.atan2((H - M.t - M.b) / (ly[1] - ly[0]), (W - M.l - M.r) / (lx[1] - lx[0])) * 180) / Math.PI;
    svg.append(element("text", { transform: `translate(${X(at)} ${Y(at * m.gbs) - 5}) rotate(${slope})` }, `${m.name} ${digits(m.gbs)} GB/s`));
  });
  const fastest = Math.max(...memory.map((m) => m.gbs), 0);
  for (const c of used) svg.append(element("path", { class: "roof", d: `M${X(Math.max(left, fastest ? c.gops / fastest : left))},${Y(c.gops)}L${X(right)},${Y(c.gops)}` }), element("text", { class: "strong", x: W - M.r - 4, y: Y(c.gops) - 5, "text-anchor": "end" }, `${c.type} ${digits(c.gops)} GFLOP/s`));
  const longest = Math.max(...points.map((p) => timeOf(p.l)));
  points.sort((a, b) => timeOf(b.l) - timeOf(a.l));
  for (const p of points.slice(0, 3000)) {
    const dot = element("circle", { class: "point", "data-layer": p.l.index, cx: X(p.x), cy: Y(p.y), r: 3.5 + 7 * Math.sqrt(timeOf(p.l) / longest), "fill-opacity": 0.8, style: `fill:${kindColor(p.l.type)}` }, element("title", {}, layerTip(p.l)));
    dot.addEventListener("click", () => select(p.l.index, "list"));
    svg.append(dot);
  }
  fill(box, svg, element("p", { class: "note" }, e.machine ? "Each layer is a circle as large as its time. The lines are what this machine was measured to do: how fast each memory is read, and how fast it computes." : "The machine was not measured: the plot has no roof."));
}
onChange((why) => {
  if (why === "engine") showRoofline();
  if (why === "select") for (const p of document.querySelectorAll("#roofline .point")) p.style.stroke = +p.dataset.layer === state.selected ? "var(--accent)" : "";
});
