// What each thread did in one run.

const LANE = 44;

function threadsView(place) {
  const { spans, totals } = shown().report;
  if (!spans.length) return replace(place, element("p", { class: "hint" }, "No run was measured: give the report inputs to run."));
  const plot = element("div", { class: "plot" });
  const text = `one run of ${plural(totals.threads, "thread")}; zoom with the wheel, drag to move`;
  replace(place, figure("Threads", text, plot), threadLegend());
  drawThreads(plot, spans, totals.threads);
  markPoints();
  return undefined;
}

function threadLegend() {
  const key = (kind, text) => element("span", { class: "key" }, element("i", { class: kind }), text);
  return element("div", { class: "legend flat" }, key("work", "kernel, by its time"), key("conversion", "conversion, copy"), key("numpy", "NumPy"), key("wait", "waiting at a barrier"));
}

// The step of a span: the one with its kernel and nodes.
function stepFinder() {
  const key = (kernel, nodes) => JSON.stringify([kernel, nodes]);
  const known = new Map(shown().steps.flatMap((step) => step.calls.map((call) => [key(call.kernel, [...new Set(step.nodes)]), step])));
  return (span) => known.get(key(span.name, span.nodes));
}

function drawThreads(place, spans, threads) {
  const find = stepFinder();
  const rows = spans.map((span) => ({ ...span, step: find(span) }));
  const [width, height] = [Math.max(520, place.clientWidth), threads * LANE + 70];
  const x = d3.scaleLinear([0, d3.max(spans, (span) => span.end)], [ROOM.left, width - ROOM.right]);
  const svg = canvas(place, width, height).attr("class", "threads");
  svg.append("clipPath").attr("id", "lanes").append("rect").attr("x", ROOM.left).attr("width", width - ROOM.left - ROOM.right).attr("height", height);
  svg.append("g").selectAll("text").data(d3.range(threads)).join("text").attr("class", "lane").attr("x", ROOM.left - 10).attr("y", (i) => i * LANE + 38).attr("text-anchor", "end").text((i) => `thread ${i}`);
  const boxes = svg.append("g").attr("clip-path", "url(#lanes)").selectAll("rect").data(rows).join("rect");
  const axis = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${threads * LANE + 26})`);
  boxes
    .attr("class", (span) => `span ${span.step?.kind === "conversion" ? "conversion" : span.kind}`)
    .attr("data-step", (span) => span.step?.id ?? null)
    .style("--heat-share", (span) => `${span.step ? 30 + 70 * heat(span.step) : 30}%`)
    .attr("y", (span) => span.thread * LANE + 18)
    .attr("height", LANE - 14)
    .on("click", (event, span) => span.step && choose(span.step.id))
    .each(function (span) {
      tipped(this, `${span.step?.title ?? span.name}\n${span.nodes.join(", ")}\n${timeText(span.end - span.start)} from ${timeText(span.start)}`);
    });
  const put = (scale) => {
    boxes.attr("x", (span) => scale(span.start)).attr("width", (span) => Math.max(0.6, scale(span.end) - scale(span.start) - 0.4));
    axis.call(d3.axisBottom(scale).ticks(8).tickFormat(timeText).tickSizeOuter(0));
  };
  put(x);
  const ends = [[ROOM.left, 0], [width - ROOM.right, height]];
  svg.call(d3.zoom().scaleExtent([1, 400]).extent(ends).translateExtent(ends).on("zoom", ({ transform }) => put(transform.rescaleX(x))));
}
