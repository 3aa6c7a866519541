// Draws the hit rate over time from the table that stands below the chart.
"use strict";

const HEIGHT = 260;
const LEAST_SPAN = 20;
const DASHED_FROM = 4;
const charts = new Map();

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function read(table) {
  const rows = [...table.tBodies[0].rows];
  const times = rows.map((row) => Date.parse(row.querySelector("time").dateTime) / 1000);
  const columns = [...table.tHead.rows[0].cells].slice(1).map((_, column) =>
    rows.map((row) => {
      const text = row.cells[column + 1].dataset.percent;
      return text === "" ? null : Number(text);
    }),
  );
  return [times, ...columns];
}

// Rates are near one another and near 100: the scale starts at the ten below the lowest.
function lowest(data) {
  const values = data.slice(1).flat().filter((value) => value !== null);
  const least = Math.min(100 - LEAST_SPAN, ...values);
  return Math.max(0, Math.floor(least / 10) * 10);
}

const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { timeStyle: "short", timeZone: "UTC" });

// `12:00`, and at midnight the day: `24 Nov`.
function tickText(seconds) {
  return (seconds % 86400 === 0 ? DAY : CLOCK).format(seconds * 1000);
}

function axis(values) {
  return {
    stroke: colour("--quiet"),
    font: "12px system-ui, sans-serif",
    grid: { stroke: colour("--line"), width: 1 },
    ticks: { stroke: colour("--line"), width: 1 },
    ...values,
  };
}

function series(index) {
  return {
    stroke: colour(`--series-${index}`),
    width: 2,
    dash: index < DASHED_FROM ? undefined : [6, 4],
    spanGaps: true,
    points: { show: true, size: 5, fill: colour("--surface") },
  };
}

function showValues(figure, plot) {
  const at = plot.cursor.idx;
  figure.querySelectorAll("output").forEach((output, index) => {
    const value = at == null ? null : plot.data[index + 1][at];
    output.textContent = value == null ? output.dataset.latest : `${value} %`;
  });
}

function draw(figure) {
  charts.get(figure)?.destroy();
  const place = figure.querySelector(".chart");
  const data = read(document.getElementById(figure.dataset.numbers));
  const least = lowest(data);
  const options = {
    width: place.clientWidth,
    height: HEIGHT,
    // Ticks stand at UTC's midnights.
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    legend: { show: false },
    cursor: { y: false, points: { size: 8 } },
    scales: { y: { range: [least, 100] } },
    axes: [axis({ values: (_, ticks) => ticks.map(tickText) }), axis({ size: 52, values: (_, ticks) => ticks.map((tick) => `${tick} %`) })],
    series: [{}, ...data.slice(1).map((_, index) => series(index))],
    hooks: { setCursor: [(plot) => showValues(figure, plot)] },
  };
  charts.set(figure, new uPlot(options, data, place));
}

function drawAll() {
  for (const figure of charts.keys()) {
    if (!figure.isConnected) {
      charts.get(figure).destroy();
      charts.delete(figure);
    }
  }
  for (const figure of document.querySelectorAll("figure[data-numbers]")) {
    draw(figure);
  }
}

addEventListener("resize", () => {
  for (const [figure, plot] of charts) {
    plot.setSize({ width: figure.querySelector(".chart").clientWidth, height: HEIGHT });
  }
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("htmx:afterSettle", (event) => {
  if (event.detail.elt.querySelector("figure[data-numbers]")) {
    drawAll();
  }
});
drawAll();
