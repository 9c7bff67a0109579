// The data of the page: it is unpacked, indexed, and formatted for people.

async function unpacked() {
  const text = document.getElementById("data").textContent;
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(stream).text());
}

// A report with what the views look up: neighbours of steps, kernels by name, times and shares.
function indexed(report) {
  const steps = report.steps.map((step) => indexedStep(report, step));
  for (const { source, target } of report.edges) {
    steps[source].after.push(target);
    steps[target].before.push(source);
  }
  const total = report.totals.seconds ?? d3.sum(steps, (step) => step.seconds ?? 0);
  for (const step of steps) step.share = step.seconds === null ? null : step.seconds / total;
  const kernels = new Map(report.kernels.map((kernel) => [kernel.name, kernel]));
  const isMeasured = report.totals.seconds !== null;
  return { report, steps, kernels, total, isMeasured, most: d3.max(steps, (s) => s.share) || 1 };
}

function indexedStep(report, step) {
  const ops = step.ops.map((i) => report.ops[i]);
  const estimates = ops.map((op) => op.estimate).filter((each) => each !== null);
  const measured = step.calls.length ? d3.sum(step.calls, (call) => call.seconds) : null;
  const estimate = estimates.length ? d3.sum(estimates) : null;
  return {
    ...step,
    title: titleOf(step, ops),
    seconds: measured ?? (report.totals.seconds === null ? estimate : null),
    members: ops,
    work: workOf(step.calls),
    before: [],
    after: [],
  };
}

function titleOf(step, ops) {
  if (!ops.length) return step.kind === "numpy" ? step.kernel.replace("nn.", "") : step.label;
  return ops.map((op) => op.op.replace(/^nn\./, "")).join(" + ");
}

// The first node of the model that a step computes, if any.
const nodeOf = (step) => step.nodes.find((node) => !node.startsWith("place."));

function workOf(calls) {
  const sum = (key) => {
    const known = calls.map((call) => call[key]).filter((each) => each !== null);
    return known.length ? d3.sum(known) : null;
  };
  const seconds = d3.sum(calls, (call) => call.seconds);
  const operations = sum("operations");
  const bytes = sum("bytes");
  const per = (amount) => (amount === null || !seconds ? null : amount / seconds);
  const roof = sum("roof");
  const estimate = sum("estimate");
  return {
    calls: d3.sum(calls, (call) => call.calls),
    operations,
    bytes,
    estimate,
    flops: per(operations),
    bandwidth: per(bytes),
    ofRoof: per(roof),
    ratio: per(estimate),
    busy: busyOf(calls, seconds),
  };
}

function busyOf(calls, seconds) {
  const means = calls.map((call) => d3.mean(call.busy) ?? 0);
  return seconds ? d3.sum(means) / seconds : null;
}

// ** texts **

const NONE = "\u2013";

function scaled(value, units, digits = 3) {
  if (value === null || value === undefined) return NONE;
  if (value === 0) return `0 ${units.at(-1)[1]}`;
  const [scale, unit] = units.find(([least]) => Math.abs(value) >= least) ?? units.at(-1);
  return `${Number((value / scale).toPrecision(digits))} ${unit}`;
}

const TIMES = [
  [1, "s"],
  [1e-3, "ms"],
  [1e-6, "\u00b5s"],
  [1e-9, "ns"],
];
const SIZES = [
  [2 ** 30, "GiB"],
  [2 ** 20, "MiB"],
  [2 ** 10, "KiB"],
  [1, "B"],
];
const DECIMAL = [
  [1e12, "T"],
  [1e9, "G"],
  [1e6, "M"],
  [1e3, "k"],
  [1, ""],
];

const timeText = (seconds) => scaled(seconds, TIMES);
const sizeText = (bytes) => scaled(bytes, SIZES);
const countText = (count) => scaled(count, DECIMAL).trim();
const rateText = (rate, unit) =>
  rate === null || rate === undefined ? NONE : `${scaled(rate, DECIMAL)}${unit}`;

function shareText(share) {
  if (share === null || share === undefined) return NONE;
  const percent = share * 100;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toPrecision(2)} %`;
}

const ratioText = (ratio) => (ratio === null || ratio === undefined ? NONE : ratio.toFixed(2));
const shortened = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);
const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;
