// Kernels under the roofs of the machine: arithmetic over intensity, and the share of the roof.

const ROOM = { top: 24, right: 24, bottom: 46, left: 64 };

function rooflineView(place) {
  const steps = shown().steps.filter((step) => step.work.ofRoof !== null);
  if (!steps.length) return replace(place, element("p", { class: "hint" }, "No kernel was measured: give the report inputs to run."));
  const plot = element("div", { class: "plot" });
  const bars = element("div", { class: "plot side" });
  replace(place, element("div", { class: "two" }, figure("Roofline", "each point is a step; its area is its time", plot), figure("Share of the roof", "the longest steps first; the roof is the least time by arithmetic or by memory", bars)));
  drawRoofline(plot, steps.filter((step) => step.work.flops));
  drawShares(bars, d3.sort(steps, (step) => -step.seconds));
  markPoints();
  return undefined;
}

const figure = (title, text, plot) => element("figure", {}, element("figcaption", {}, element("h2", {}, title), element("p", { class: "sub" }, text)), plot);

function drawRoofline(place, steps) {
  const { machine, totals } = shown().report;
  const peak = machine.peaks[0].rate * totals.threads;
  const roofs = machine.bandwidths.map((each) => ({ ...each, rate: each.rate * totals.threads }));
  const intensity = (step) => step.work.operations / step.work.bytes;
  const [width, height] = [Math.max(420, place.clientWidth), Math.max(360, place.clientHeight)];
  const range = d3.extent([...steps.map(intensity), peak / roofs.at(-1).rate, 0.1]);
  const x = d3.scaleLog([range[0] / 2, range[1] * 4], [ROOM.left, width - ROOM.right]);
  const least = Math.min(d3.min(steps, (step) => step.work.flops) / 3, peak / 50);
  const y = d3.scaleLog([least, peak * 2], [height - ROOM.bottom, ROOM.top]);
  const svg = canvas(place, width, height);
  axes(svg, x, y, { width, height, across: "operations per byte", up: "FLOP/s" });
  drawRoofs(svg, x, y, roofs, peak);
  drawPoints(svg, x, y, steps, intensity);
}

const canvas = (place, width, height) => d3.select(place).append("svg").attr("viewBox", `0 0 ${width} ${height}`).attr("width", width).attr("height", height);

function axes(svg, x, y, { width, height, across, up }) {
  const rate = (value) => (isPower(value) ? countText(value) : "");
  const bottom = svg.append("g").attr("class", "axis").attr("transform", `translate(0,${height - ROOM.bottom})`);
  bottom.call(d3.axisBottom(x).ticks(8, "~g").tickSizeOuter(0).tickFormat((v) => (isPower(v) ? d3.format("~g")(v) : "")));
  svg.append("g").attr("class", "axis").attr("transform", `translate(${ROOM.left},0)`).call(d3.axisLeft(y).ticks(6).tickSizeOuter(0).tickFormat(rate));
  svg.append("g").attr("class", "grid").attr("transform", `translate(${ROOM.left},0)`).call(d3.axisLeft(y).tickValues(y.ticks(6).filter(isPower)).tickSize(-(width - ROOM.left - ROOM.right)).tickFormat(""));
  svg.append("text").attr("class", "label").attr("x", width - ROOM.right).attr("y", height - 8).attr("text-anchor", "end").text(across);
  svg.append("text").attr("class", "label").attr("x", 8).attr("y", 14).text(up);
}

const isPower = (value) => Math.abs(Math.log10(value) - Math.round(Math.log10(value))) < 1e-9;

function drawRoofs(svg, x, y, roofs, peak) {
  const [first, last] = x.domain();
  const group = svg.append("g").attr("class", "roofs");
  for (const roof of roofs) {
    const from = Math.max(first, y.domain()[0] / roof.rate);
    const to = Math.min(last, peak / roof.rate);
    const ends = [from, to].map((at) => [x(at), y(at * roof.rate)]);
    group.append("path").attr("d", d3.line()(ends));
    const [[x0, y0], [x1, y1]] = ends;
    const angle = (Math.atan2(y1 - y0, x1 - x0) * 180) / Math.PI;
    const at = `translate(${x0 + 0.12 * (x1 - x0)},${y0 + 0.12 * (y1 - y0) - 5}) rotate(${angle})`;
    group.append("text").attr("transform", at).text(`${roof.level} ${rateText(roof.rate, "B/s")}`);
  }
  group.append("path").attr("class", "peak").attr("d", d3.line()([[x(peak / roofs[0].rate), y(peak)], [x(last), y(peak)]]));
  group.append("text").attr("x", x(last)).attr("y", y(peak) - 6).attr("text-anchor", "end").text(`peak ${rateText(peak, "FLOP/s")}`);
}

function drawPoints(svg, x, y, steps, intensity) {
  const radius = d3.scaleSqrt([0, d3.max(steps, (step) => step.share) ?? 1], [3, 17]);
  const points = svg.append("g").selectAll("circle").data(d3.sort(steps, (step) => -step.share)).join("circle");
  points
    .attr("class", "point")
    .attr("data-step", (step) => step.id)
    .attr("cx", (step) => x(intensity(step)))
    .attr("cy", (step) => y(step.work.flops))
    .attr("r", (step) => radius(step.share));
  choosable(points, (step) => `${step.title}\n${step.nodes.join(", ")}\n${rateText(step.work.flops, "FLOP/s")}, ${rateText(step.work.bandwidth, "B/s")}\n${shareText(step.work.ofRoof)} of the roof\n${timeText(step.seconds)}, ${shareText(step.share)} of the time`);
}

// Let shapes of steps be chosen with the pointer and the keyboard.
function choosable(shapes, text) {
  shapes
    .attr("role", "button")
    .attr("tabindex", 0)
    .attr("aria-label", text)
    .on("click", (event, step) => choose(step.id))
    .on("keydown", (event, step) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      choose(step.id);
    })
    .each(function (step) {
      tipped(this, () => text(step));
    });
}

const ROW = 24;

function drawShares(place, steps) {
  const rows = steps.slice(0, 60);
  const [width, left] = [Math.max(380, place.clientWidth - 12), 190];
  const x = d3.scaleLinear([0, Math.max(1, d3.max(rows, (step) => step.work.ofRoof))], [left, width - 56]);
  const svg = canvas(place, width, rows.length * ROW + 8);
  const groups = svg.append("g").selectAll("g").data(rows).join("g").attr("class", "share-row").attr("data-step", (step) => step.id);
  groups.attr("transform", (step, i) => `translate(0,${i * ROW + 4})`);
  groups.append("rect").attr("class", "back").attr("width", width).attr("height", ROW - 2).attr("rx", 4);
  groups.append("text").attr("x", left - 10).attr("y", 15).attr("text-anchor", "end").text((step) => shortened(nodeOf(step) ?? step.title, 26));
  groups.append("rect").attr("class", "roof").attr("x", left).attr("y", 5).attr("width", x(1) - left).attr("height", ROW - 12).attr("rx", 3);
  groups.append("rect").attr("class", "fill").attr("x", left).attr("y", 5).attr("width", (step) => x(step.work.ofRoof) - left).attr("height", ROW - 12).attr("rx", 3);
  groups.append("text").attr("class", "value").attr("x", width - 6).attr("y", 15).attr("text-anchor", "end").text((step) => shareText(step.work.ofRoof));
  choosable(groups, (step) => `${step.title}\n${step.nodes.join(", ")}\n${shareText(step.work.ofRoof)} of the roof, ${timeText(step.seconds)}`);
}

function markPoints() {
  d3.selectAll(".point, .share-row, .span").classed("chosen", function () {
    return state.step !== null && Number(this.dataset.step) === state.step;
  });
}

on("step", markPoints);
