// Where the time of the compilation went.

const APART = "llvm work"; // LLVM's time in other processes, which is not part of the total

function compilationView(place) {
  const times = Object.entries(shown().report.compilation).filter(([name]) => name !== APART);
  if (!times.length) return replace(place, element("p", { class: "hint" }, "The times of the compilation are not known."));
  const total = d3.sum(times, ([, seconds]) => seconds);
  const apart = shown().report.compilation[APART];
  const work = apart ? `; LLVM worked for ${timeText(apart)} in all, mostly in other processes meanwhile` : "";
  const plot = element("div", { class: "plot" });
  replace(place, element("div", { class: "scroll" }, figure("Compilation", `${timeText(total)}${work}`, plot)));
  drawBars(plot, d3.sort(times, ([, seconds]) => -seconds), total);
  return undefined;
}

function drawBars(place, times, total) {
  const [width, left] = [Math.min(900, Math.max(420, place.clientWidth)), 210];
  const x = d3.scaleLinear([0, times[0][1]], [left, width - 130]);
  const svg = canvas(place, width, times.length * ROW + 8);
  const rows = svg.append("g").selectAll("g").data(times).join("g").attr("class", "time-row").attr("transform", (each, i) => `translate(0,${i * ROW + 4})`);
  rows.append("text").attr("x", left - 10).attr("y", 15).attr("text-anchor", "end").text(([name]) => name);
  rows.append("rect").attr("x", left).attr("y", 4).attr("height", ROW - 10).attr("rx", 3).attr("width", ([, seconds]) => Math.max(1, x(seconds) - left));
  rows.append("text").attr("class", "value").attr("x", ([, seconds]) => x(seconds) + 8).attr("y", 15).text(([, seconds]) => `${timeText(seconds)}  ${shareText(seconds / total)}`);
}
