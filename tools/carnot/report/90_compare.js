// Two engines side by side: sums, kinds, and layers that share operators.
function engineName(i) {
  const [a, b] = data.engines;
  return a.file !== b.file ? data.engines[i].file : `${"AB"[i]}: ${data.engines[i].file}`;
}
function change(a, b) {
  if (!(a > 0) || b == null || !isFinite(b)) return element("span", {}, "–");
  const ratio = b / a - 1;
  return element("span", { class: ratio < -0.02 ? "better" : ratio > 0.02 ? "worse" : "" }, (ratio > 0 ? "+" : "") + (ratio * 100).toFixed(0) + " %");
}
function timesOf(engine, l) {
  return l == null ? null : l.us != null ? l.us : engine.measured ? null : l.build_us || null;
}

// Layers of both that hold the same first operator, in order of the difference of their times.
function pairs() {
  const [a, b] = data.engines, other = new Map();
  for (const l of b.layers) for (const [name] of l.operators) if (!other.has(name)) other.set(name, l);
  const seen = new Set(), out = [];
  for (const l of a.layers) {
    const hit = l.operators.map(([name]) => other.get(name)).find((m) => m && !seen.has(m.index)) || null;
    if (hit) seen.add(hit.index);
    out.push([l, hit]);
  }
  for (const l of b.layers) if (!seen.has(l.index)) out.push([null, l]);
  const gap = ([x, y]) => Math.abs((timesOf(a, x) || 0) - (timesOf(b, y) || 0));
  return out.sort((p, q) => gap(q) - gap(p));
}

function compareTable(head, rows) {
  return element("div", { class: "scroll" }, element("table", {}, element("thead", {}, element("tr", {}, ...head.map((h, i) => element("th", { scope: "col", class: i ? "right" : null, style: "padding:7px 10px" }, h)))),
    element("tbody", {}, ...rows.map((r) => element("tr", {}, ...r.map((cell, i) => element("td", { class: i ? "right" : "name", title: typeof cell === "string" ? cell : null }, cell)))))));
}

function showCompare() {
  if (data.engines.length < 2) return;
  const [a, b] = data.engines, flops = (e) => e.layers.reduce((s, l) => s + l.flops, 0);
  const sums = [["All layers", a.total, b.total, microseconds], ["Limit of the machine", a.limit, b.limit, microseconds], ["Layers", a.layers.length, b.layers.length, String],
    ["Arithmetic", flops(a), flops(b), (x) => digits(x / 1e9) + " GFLOP"], ["Activations", a.activation_bytes, b.activation_bytes, bytes], ["Engine file", a.file_bytes, b.file_bytes, bytes]];
  const kinds = [...new Set([...a.kinds, ...b.kinds].map((k) => k.kind))].map((k) => [k, ...[a, b].map((e) => (e.kinds.find((x) => x.kind === k) || { time: 0 }).time)]).sort((x, y) => y[1] + y[2] - x[1] - x[2]);
  const head = ["", engineName(0), engineName(1), "change"], name = (p) => (p[0] || p[1]).name;
  const tactics = (p) => (p[0] && p[1] ? (p[0].tactic === p[1].tactic ? p[0].tactic : `${p[0].tactic} → ${p[1].tactic}`) : p[0] ? `only in ${engineName(0)}` : `only in ${engineName(1)}`);
  fill(byId("compare-body"), element("div", { class: "columns" },
    element("div", { class: "card" }, element("h3", {}, "Engines"), compareTable(head, sums.map(([t, x, y, f]) => [t, x ? f(x) : "–", y ? f(y) : "–", change(x, y)]))),
    element("div", { class: "card" }, element("h3", {}, "Time by kind"), compareTable(head, kinds.map(([k, x, y]) => [kindText(k), microseconds(x), microseconds(y), change(x, y)])))),
    element("div", { class: "card", style: "margin-top:12px" }, element("h3", {}, "Layers by difference of time"),
      compareTable(["layer", engineName(0), engineName(1), "change", "tactic"], pairs().slice(0, 100).map((p) => [name(p), microseconds(timesOf(a, p[0])), microseconds(timesOf(b, p[1])), change(timesOf(a, p[0]), timesOf(b, p[1])), tactics(p)]))));
}

function startCompare() {
  if (data.engines.length < 2) return;
  byId("compare").hidden = byId("engines").hidden = false;
  fill(byId("engines"), ...data.engines.map((e, i) => element("button", { type: "button", "aria-pressed": i === 0 ? "true" : "false", onclick: () => {
    state.engine = e;
    state.selected = -1;
    [...byId("engines").children].forEach((b, k) => b.setAttribute("aria-pressed", k === i ? "true" : "false"));
    changed("engine");
  } }, engineName(i))));
  showCompare();
}
