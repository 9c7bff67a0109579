// The chosen step beside the view: its figures, its ops, and the kernels that were refused.

function showDetails() {
  const step = chosenStep();
  if (step === null) {
    replace("details", element("p", { class: "hint" }, "Choose a step to see its kernel, its figures, the kernels that were refused, and its code."));
    return;
  }
  replace("details", detailsHead(step), figuresOf(step), neighbours(step), opsOf(step), rivals(step));
  document.getElementById("details").scrollTop = 0;
}

function detailsHead(step) {
  const kinds = { kernel: "native", numpy: "NumPy", conversion: "conversion", loop: "loop", input: "input", output: "output" };
  const close = element("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => choose(null) }, "\u00d7");
  return element(
    "div",
    { class: "head" },
    element("h2", {}, step.title),
    element("span", { class: `badge ${step.kind}` }, kinds[step.kind] ?? step.kind),
    close,
  );
}

function figuresOf(step) {
  const { work } = step;
  const { isMeasured } = shown();
  const times = Object.entries(step.others).map(([name, seconds]) => [name, `${timeText(seconds)}${versus(step, seconds)}`]);
  return facts([
    [isMeasured ? "time" : "estimate", step.seconds === null ? null : `${timeText(step.seconds)}, ${shareText(step.share)}`],
    ...times,
    ["arithmetic", work.flops ? rateText(work.flops, "FLOP/s") : null],
    ["memory", work.bandwidth ? `${rateText(work.bandwidth, "B/s")}, ${sizeText(work.bytes)}` : null],
    ["of the roof", work.ofRoof === null ? null : shareText(work.ofRoof)],
    ["estimate", work.estimate === null ? null : `${timeText(work.estimate)}, ${ratioText(work.ratio)} of the time`],
    ["threads busy", work.busy === null || shown().report.totals.threads < 2 ? null : shareText(work.busy)],
    ["calls in a run", work.calls > 1 ? String(work.calls) : null],
    ["result", step.type || null],
    ["kernel", step.kernel ? element("code", {}, step.kernel) : null],
    ["within", step.where || null],
    ["nodes", step.nodes.length ? element("ul", { class: "names" }, step.nodes.map((node) => element("li", {}, node))) : null],
  ]);
}

const versus = (step, seconds) => (step.seconds ? `, ${(seconds / step.seconds).toFixed(2)} of this` : "");

function neighbours(step) {
  const { steps } = shown();
  const links = (ids) => ids.map((id) => element("button", { type: "button", class: "link", onclick: () => choose(id) }, shortened(steps[id].title, 34)));
  return facts([
    ["reads from", step.before.length ? element("div", { class: "links" }, links(step.before)) : null],
    ["read by", step.after.length ? element("div", { class: "links" }, links(step.after)) : null],
  ]);
}

function opsOf(step) {
  if (!step.members.length) return null;
  const each = (op) =>
    element(
      "li",
      {},
      element("b", {}, op.op.replace(/^nn\./, "")),
      element("div", { class: "sub" }, op.node),
      element("div", { class: op.native ? "sub" : "sub warn" }, `${op.kernel} at ${op.place}`),
      op.storage ? element("div", { class: "sub" }, `${op.storage}, computes in ${op.arithmetic}`) : null,
      op.estimate === null ? null : element("div", { class: "sub" }, `estimated alone: ${timeText(op.estimate)}`),
      op.pattern ? element("div", { class: "sub" }, `by ${op.pattern} from ${op.consumed.join(", ")}`) : null,
      op.fallback ? element("div", { class: "sub warn" }, op.fallback) : null,
    );
  return element("section", {}, element("h3", {}, plural(step.members.length, "op")), element("ul", { class: "ops" }, step.members.map(each)));
}

function rivals(step) {
  const rejected = step.members.flatMap((op) => op.rejected.map((each) => ({ op, ...each })));
  if (!rejected.length) return null;
  const reasons = d3.group(rejected, (each) => each.reason);
  const items = [...reasons].map(([reason, group]) =>
    element(
      "li",
      {},
      element("div", {}, reason),
      element("div", { class: "sub" }, [...new Set(group.map((each) => `${each.kernel} at ${each.place}`))].join(", ")),
    ),
  );
  return element(
    "details",
    { open: true },
    element("summary", {}, `${plural(rejected.length, "rival")} refused`),
    element("ul", { class: "ops" }, items),
  );
}

on("step", showDetails);
on("report", showDetails);
