// The panel of the selected layer.
function valueItem(index) {
  const e = state.engine, [name, dims, format] = e.values[index], maker = e.makers.get(index), readers = e.readers.get(index) || [];
  const link = (i, text) => element("button", { type: "button", onclick: () => select(i, "list") }, text + e.layers[i].name);
  const item = element("li", {}, element("code", {}, name), element("small", {}, `${shape(dims)} · ${format}`));
  if (maker != null && maker !== state.selected) item.append(link(maker, "← "));
  for (const r of readers.slice(0, 6)) if (r !== state.selected) item.append(element("div", {}, link(r, "→ ")));
  if (readers.length > 6) item.append(element("small", {}, `and ${readers.length - 6} more readers`));
  return item;
}
function valueList(title, list) {
  return list.length ? [element("h3", {}, title), element("ul", { class: "plain" }, ...list.map(valueItem))] : [];
}

// Tactics that were timed, and those that could not apply.
function reasonLists(layer) {
  const timed = [], others = [];
  for (const number of layer.why) {
    const text = state.engine.texts[number], took = text.match(/^(\S+): took ([\d.]+) us/);
    if (took) timed.push({ label: took[1], time: +took[2], color: "var(--k6)" });
    else others.push(text);
  }
  const out = [];
  if (timed.length) {
    timed.unshift({ label: layer.tactic, time: layer.build_us, color: "var(--accent)" });
    timed.sort((a, b) => a.time - b.time);
    out.push(element("h3", {}, "Timed by the build"), bars(timed));
  }
  if (others.length)
    out.push(element("details", {}, element("summary", {}, `${others.length} tactics do not apply`),
      element("ul", { class: "plain" }, ...others.map((t) => {
        const colon = t.indexOf(": ");
        return element("li", {}, element("code", {}, colon > 0 ? t.slice(0, colon) : t), colon > 0 ? element("small", {}, t.slice(colon + 2)) : null);
      }))));
  return out;
}

function showDetails(why) {
  const box = byId("details"), layer = state.engine.layers[state.selected];
  box.hidden = !layer;
  if (!layer) return fill(box);
  const e = efficiencyOf(layer), rows = [
    ["Tactic", element("code", {}, layer.tactic)], ["Time", microseconds(timeOf(layer))],
    ["Share of all", state.engine.total ? percent((timeOf(layer) || 0) / state.engine.total) : "–"],
    ["Least time", microseconds(layer.limit_us)], ["Of the limit", percent(e)],
    ["Arithmetic", digits(layer.flops / 1e6) + " MFLOP"], ["Memory traffic", bytes(layer.bytes)],
    ["Intensity", layer.bytes ? digits(layer.flops / layer.bytes) + " FLOP/byte" : "–"],
    ["Precision", precisionOf(layer) || "–"], ["Numerics", layer.numerics || "–"]];
  if (layer.error)
    rows.push(["Largest error", errorText(layer.error)], ["Relative", power(layer.error.max_rel)], ["Cosine", Number(layer.error.cosine).toFixed(9)],
      ["Outside the tolerance", `${layer.error.outside} of ${layer.error.count}`]);
  fill(box, element("button", { class: "close", type: "button", "aria-label": "Close", onclick: () => select(-1) }, "×"),
    element("h2", {}, layer.name), element("span", { class: "tag" }, kindText(layer.type)), element("span", { class: "tag" }, `layer ${layer.index}`),
    element("dl", {}, ...rows.flatMap(([k, v]) => [element("dt", {}, k), element("dd", {}, v)])),
    ...reasonLists(layer),
    element("h3", {}, layer.operators.length > 1 ? `Fused from ${layer.operators.length} operators` : "Operator"),
    element("ul", { class: "plain" }, ...layer.operators.map(([name, op, inputs]) => element("li", {}, `${op} `, element("code", {}, name), inputs && inputs.length ? element("small", {}, "of " + inputs.join(", ")) : null))),
    ...valueList("Inputs", layer.in), ...valueList("Outputs", layer.out), ...valueList("Constants", layer.constants));
  box.scrollTop = 0;
  if (why === "focus") box.focus();
}
onChange((why) => (why === "select" || why === "engine") && showDetails());
