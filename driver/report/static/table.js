// The steps as a table.

function tableView(place) {
  const { steps, report } = shown();
  const rows = steps.filter((step) => step.kind !== "input" && step.kind !== "output");
  const columns = [...stepColumns(), ...report.others.map(otherColumn)];
  const made = table(columns, rows, { sorted: columns[3], chosen: (step) => choose(step.id), label: "Steps" });
  replace(place, made);
  markRow();
}

function stepColumns() {
  const { most } = shown();
  const number = (name, of, text) => ({ name, of, text: (step) => text(of(step)), number: true });
  const flops = (rate) => rateText(rate, "FLOP/s");
  const bytes = (rate) => rateText(rate, "B/s");
  return [
    { name: "step", of: (step) => step.title, cell: stepCell },
    { name: "nodes", of: (step) => step.nodes.join(", "), cell: nodesCell },
    { name: "kernel", of: (step) => step.kernel, cell: kernelCell },
    number("time", (step) => step.seconds, timeText),
    { name: "share", of: (step) => step.share, cell: (step) => shareCell(step, most), number: true },
    number("arithmetic", (step) => step.work.flops || null, flops),
    number("memory", (step) => step.work.bandwidth, bytes),
    number("of roof", (step) => step.work.ofRoof, shareText),
    number("estimate / time", (step) => step.work.ratio, ratioText),
  ];
}

function otherColumn(other) {
  return {
    name: other.name,
    of: (step) => step.others[other.name] ?? null,
    text: (step) => timeText(step.others[other.name]),
    number: true,
  };
}

const kernelCell = (step) => {
  const name = step.kind === "numpy" ? element("span", { class: "badge numpy" }, "NumPy") : null;
  return element("span", { class: "kernel", title: step.kernel }, element("code", {}, shortened(step.kernel, 30)), name);
};
const stepCell = (step) => element("button", { type: "button", class: "link", title: step.title }, shortened(step.title, 36));
const nodesCell = (step) => element("span", { class: "sub nodes", title: step.nodes.join("\n") }, step.nodes.join(", "));

function shareCell(step, most) {
  const width = `${((100 * (step.share ?? 0)) / most).toFixed(1)}%`;
  const kind = step.kind === "numpy" ? "bar numpy" : "bar";
  return element("span", { class: "share" }, element("i", { class: kind, vars: { "--width": width } }), shareText(step.share));
}

function markRow() {
  for (const row of document.querySelectorAll("tr.choice")) {
    const isChosen = Number(row.dataset.step) === state.step && state.step !== null;
    row.classList.toggle("chosen", isChosen);
    row.setAttribute("aria-selected", String(isChosen));
  }
}

on("step", markRow);
