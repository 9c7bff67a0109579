// Two reports side by side; the second one may be opened from a file.

function compareView(place) {
  const [a, b] = state.reports;
  if (!b) return replace(place, element("div", { class: "scroll" }, opener("Open a second report, which `tessella report --json` wrote, to see both side by side.")));
  replace(place, element("div", { class: "scroll" }, element("div", { class: "cards" }, card("Runs", runsTable(a, b)), card("Differences", differences(a.report, b.report))), figure("Steps", "joined by their nodes; the largest change first", stepsTable(a, b)), opener("Open another second report.")));
  return undefined;
}

function opener(text) {
  const message = element("p", { class: "sub warn", role: "status" });
  const opened = async (event) => {
    try {
      const found = JSON.parse(await event.target.files[0].text());
      if (found.version !== state.reports[0].report.version || !Array.isArray(found.steps)) throw new Error("it is not a report of this version");
      state.reports = [state.reports[0], indexed(found)];
      tell("report");
    } catch (error) {
      message.textContent = `The file cannot be shown: ${error.message}`;
    }
  };
  const input = element("input", { type: "file", accept: ".json,application/json", "aria-label": "Second report", onchange: opened });
  return element("section", { class: "card" }, element("p", {}, text), input, message);
}

function runsTable(a, b) {
  const rows = [
    ["model", a.report.model.name, b.report.model.name],
    ["time of a run", timeText(a.total), timeText(b.total)],
    ["A / B", NONE, ratioText(a.total / b.total)],
    ["of the peak", shareText(a.report.totals.of_peak), shareText(b.report.totals.of_peak)],
    ["threads", String(a.report.totals.threads), String(b.report.totals.threads)],
    ["steps", String(a.steps.length), String(b.steps.length)],
    ["arena", sizeText(a.report.totals.arena_bytes), sizeText(b.report.totals.arena_bytes)],
    ["compilation", timeText(compiled(a)), timeText(compiled(b))],
  ];
  const columns = ["", "A", "B"].map((name, i) => ({ name, of: (row) => row[i], number: i > 0 }));
  return table(columns, rows, { label: "Runs" });
}

const compiled = ({ report }) => d3.sum(Object.entries(report.compilation), ([name, seconds]) => (name === APART ? 0 : seconds));

function differences(a, b) {
  const pairs = [
    ...differing(a.options, b.options),
    ...differing({ processor: a.machine.processor, target: a.machine.target }, { processor: b.machine.processor, target: b.machine.target }),
    ...differing(a.machine.versions, b.machine.versions),
    ...differing(a.hashes, b.hashes).map(([name]) => [`program (${name})`, "differs"]),
  ];
  return pairs.length ? facts(pairs) : element("p", { class: "hint" }, "Options, machines, versions and programs are the same.");
}

function differing(a, b) {
  const names = [...new Set([...Object.keys(a), ...Object.keys(b)])];
  return names.filter((name) => a[name] !== b[name]).map((name) => [name, `${a[name] ?? NONE} \u2192 ${b[name] ?? NONE}`]);
}

// Steps of both reports, joined by the nodes that they compute.
function joined(a, b) {
  const key = (step) => step.nodes.join("\n") || step.label;
  const work = (side) => side.steps.filter((step) => step.seconds !== null);
  const left = d3.group(work(a), key);
  const right = d3.group(work(b), key);
  const seconds = (steps) => (steps ? d3.sum(steps, (step) => step.seconds) : null);
  return [...new Set([...left.keys(), ...right.keys()])].map((name) => {
    const [x, y] = [left.get(name), right.get(name)];
    return { name, title: (x ?? y)[0].title, a: seconds(x), b: seconds(y), kernels: [x?.[0].kernel, y?.[0].kernel] };
  });
}

function stepsTable(a, b) {
  const rows = joined(a, b);
  const change = (row) => (row.b ?? 0) - (row.a ?? 0);
  const most = d3.max(rows, (row) => Math.abs(change(row))) || 1;
  const columns = [
    { name: "step", of: (row) => row.title, text: (row) => shortened(row.title, 36) },
    { name: "nodes", of: (row) => row.name, cell: (row) => element("span", { class: "sub", title: row.name }, shortened(row.name.replaceAll("\n", ", "), 46)) },
    { name: "A", of: (row) => row.a, text: (row) => timeText(row.a), number: true },
    { name: "B", of: (row) => row.b, text: (row) => timeText(row.b), number: true },
    { name: "A / B", of: (row) => (row.a && row.b ? row.a / row.b : null), text: (row) => ratioText(row.a && row.b ? row.a / row.b : null), number: true },
    { name: "change", of: (row) => Math.abs(change(row)), cell: (row) => changeCell(change(row), most), number: true },
    { name: "kernels", of: (row) => row.kernels.join(" "), text: (row) => (row.kernels[0] === row.kernels[1] ? (row.kernels[0] ?? "") : `${row.kernels[0] ?? NONE} \u2192 ${row.kernels[1] ?? NONE}`) },
  ];
  return table(columns, rows, { sorted: columns[5], label: "Steps of both reports" });
}

function changeCell(change, most) {
  const width = `${((100 * Math.abs(change)) / most).toFixed(1)}%`;
  const sign = change > 0 ? "+" : change < 0 ? "\u2212" : "";
  return element("span", { class: "share" }, element("i", { class: change > 0 ? "bar slower" : "bar faster", vars: { "--width": width } }), `${sign}${timeText(Math.abs(change))}`);
}
