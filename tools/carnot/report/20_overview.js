// The summary: cards, the slowest layers, time by kind.
function card(label, value, note, share) {
  return element("div", { class: "card" }, element("span", {}, label), element("b", {}, value),
    share == null ? null : element("div", { class: "meter" }, element("i", { style: `width:${Math.min(100, share * 100)}%` })),
    note ? element("small", {}, note) : null);
}

// Rows of |items|: {label, time, limit, color, pick}; a line marks the limit.
function bars(items) {
  const most = Math.max(...items.map((i) => i.time), 1e-9), box = element("div", { class: "bars" });
  for (const i of items) {
    const mark = i.limit > 0 ? element("u", { style: `left:${(i.limit / most) * 100}%`, title: "limit " + microseconds(i.limit) }) : null;
    box.append(
      i.pick ? element("button", { type: "button", title: i.label, onclick: i.pick }, i.label) : element("span", { class: "label", title: i.label }, i.label),
      element("span", { class: "track" }, element("i", { style: `width:${(i.time / most) * 100}%;background:${i.color}` }), mark),
      element("span", { class: "number" }, microseconds(i.time), i.note ? element("small", {}, i.note) : null));
  }
  return box;
}

function showOverview() {
  const e = state.engine;
  byId("title").textContent = e.name || e.file;
  document.title = `${e.name || e.file} · Carnot report`;
  byId("subtitle").textContent = [e.file, e.device, e.threads ? `${e.threads} threads` : "", `${e.layers.length} layers`].filter(Boolean).join(" · ");
  const flops = e.layers.reduce((sum, l) => sum + l.flops, 0), moved = e.layers.reduce((sum, l) => sum + l.bytes, 0);
  const worst = e.layers.filter((l) => l.error).sort((a, b) => b.error.max_abs - a.error.max_abs)[0];
  const operators = e.layers.reduce((sum, l) => sum + l.operators.length, 0);
  fill(byId("cards"),
    card(e.measured ? "All layers" : "All layers, timed by the build", e.total ? microseconds(e.total) : "–", e.measured ? "sum of the best times" : "not measured"),
    card("Limit of the machine", e.limit ? microseconds(e.limit) : "–", e.limit ? "roofline, layer by layer" : "needs a measurement"),
    card("Of the limit", e.limit && e.measured ? percent(e.limit / e.total) : "–", null, e.limit && e.measured ? e.limit / e.total : 0),
    card("Arithmetic", digits(flops / 1e9) + " GFLOP", e.total ? digits(flops / e.total / 1e3) + " GFLOP/s" : ""),
    card("Read and written", bytes(moved), e.total ? digits(moved / e.total / 1e3) + " GB/s" : ""),
    card("Layers", String(e.layers.length), `from ${operators} operators`),
    card("Activations", e.activation_bytes ? bytes(e.activation_bytes) : "–", e.activation_bytes ? `at least ${bytes(e.activation_bound_bytes)}` : "placed when shapes are known"),
    worst ? card("Largest error", errorText(worst.error), `of layer ${worst.name}`) : null,
    card("Engine file", bytes(e.file_bytes), `loaded in ${digits(e.load_ms)} ms`));
  const above = e.layers.filter((l) => efficiencyOf(l) > 1.15 && l.us > 0.01 * e.total).length;
  const busy = e.machine && e.machine.busy;
  byId("busy").hidden = !above && !busy;
  byId("busy").textContent = [
    busy ? `The machine was busy while it was measured: the measuring thread ran ${percent(e.machine.availability)} of the time. Peaks are too low, and distances from the limit too small.` : "",
    above ? `${above} layers are faster than the limit that was measured.` : "",
    "Write the report again on an idle machine."].filter(Boolean).join(" ");
  const slow = e.layers.filter((l) => timeOf(l)).sort((a, b) => timeOf(b) - timeOf(a)).slice(0, 10);
  fill(byId("slowest"), slow.length ? bars(slow.map((l) => ({ label: l.name, time: timeOf(l), limit: l.limit_us, color: kindColor(l.type), pick: () => select(l.index, "list") }))) : element("p", { class: "note" }, "No times are known."),
    e.limit ? element("p", { class: "note" }, "The line in a bar is the least time that this machine allows.") : null);
  fill(byId("kinds"), bars(e.kinds.map((k) => ({ label: `${kindText(k.kind)} (${k.count})`, time: k.time, limit: k.limit, color: kindColor(k.kind), note: e.total ? percent(k.time / e.total) : "" }))));
}
onChange((why) => why === "engine" && showOverview());
