// The head of the page, and the view of facts about the model, the machine and the options.

function showHead() {
  const { report } = shown();
  const name = element("h1", {}, report.model.name);
  replace("head", element("div", { class: "title" }, name, switcher()), figures(shown()));
}

function switcher() {
  if (state.reports.length < 2) return element("span", { class: "kind" }, "tessella report");
  const options = state.reports.map((each, i) =>
    element("option", { value: i, selected: i === state.current }, label(i)),
  );
  const changed = (event) => {
    state.current = Number(event.target.value);
    state.step = null;
    tell("report");
  };
  return element("select", { "aria-label": "Report", onchange: changed }, options);
}

const label = (i) => `${"AB"[i]}: ${state.reports[i].report.model.name}`;

function figures({ report, total, isMeasured }) {
  const { totals } = report;
  const shownFigures = [
    [isMeasured ? "a run takes" : "estimated", timeText(total)],
    ["of the peak", shareText(totals.of_peak)],
    [totals.threads === 1 ? "thread" : "threads", totals.threads],
    ["in NumPy", totals.in_numpy === null ? NONE : shareText(totals.in_numpy / total)],
    ["waiting", totals.waiting === null ? NONE : shareText(totals.waiting / total)],
    ["outside steps", totals.other === null ? NONE : shareText(totals.other / total)],
    ["weights", sizeText(report.model.weight_bytes)],
    ["arena", sizeText(totals.arena_bytes)],
    ...report.others.map((other) => [other.name, timeText(other.seconds)]),
  ];
  const cells = shownFigures
    .filter(([, value]) => value !== NONE)
    .map(([name, value]) => element("div", {}, element("b", {}, String(value)), element("span", {}, name)));
  return element("div", { class: "figures" }, cells);
}

function aboutView(place) {
  const { report } = shown();
  const { machine } = report;
  const cards = [
    card("Model", modelFacts(report)),
    card("Machine", machineFacts(machine)),
    card("Options", facts(Object.entries(report.options))),
    card("Versions", facts(Object.entries(machine.versions))),
    card("SHA-256", facts(Object.entries(report.hashes).map(([k, v]) => [k, element("code", {}, v)]))),
  ];
  if (report.notes.length) cards.push(card("Notes", element("ul", {}, report.notes.map((n) => element("li", {}, n)))));
  replace(place, element("div", { class: "cards" }, cards));
}

const card = (title, ...children) => element("section", { class: "card" }, element("h2", {}, title), children);

function modelFacts({ model, totals, steps }) {
  const tensor = (each) => `${each.name}: ${each.dtype} ${each.shape.join("\u00d7") || "scalar"}`;
  const lines = (tensors) => tensors.map((each) => element("div", {}, tensor(each)));
  return facts([
    ["name", model.name],
    ["inputs", element("div", {}, lines(model.inputs))],
    ["outputs", element("div", {}, lines(model.outputs))],
    ["steps", String(steps.length)],
    ["operations in a run", totals.operations ? countText(totals.operations) : null],
    ["measured runs", totals.runs ? String(totals.runs) : null],
  ]);
}

function machineFacts(machine) {
  const rate = (each) => {
    const size = each.capacity === null ? "" : `${sizeText(each.capacity)}, `;
    return [each.level, `${size}${rateText(each.rate, "B/s")} a core`];
  };
  return facts([
    ["processor", machine.processor],
    ["cores", String(machine.cores)],
    ["system", machine.system],
    ["target", `${machine.target}, ${machine.vector_bits} bits, ${machine.ghz} GHz`],
    ["features", machine.features.join(" ") || null],
    ...machine.peaks.map((peak) => [`peak ${peak.name}`, `${rateText(peak.rate, "FLOP/s")} a core`]),
    ...machine.bandwidths.map(rate),
  ]);
}
