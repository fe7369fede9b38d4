// Draw a model's diagnosis: shares as stacked bars, artefact maps as colours, attention distances as dots.
import { font, themed } from "./colours.js";

const PARTS = ["position", "image", "local"];
const label = (name) => name.replace("block ", "");

// A chart has a column for each layer, with its name below.
function columns(map, names, chosen) {
  const { context, size } = map,
    { width, height } = map.canvas,
    text = Math.round(Math.min(13 * devicePixelRatio, size * 0.42)),
    foot = 2 * text;
  context.fillStyle = themed("--cell");
  if (chosen >= 0) context.fillRect(chosen * size, 0, size, height);
  Object.assign(context, { font: font(text), textAlign: "center", textBaseline: "middle" });
  names.forEach((name, column) => {
    context.fillStyle = themed(column === chosen ? "--ink" : "--muted");
    context.fillText(label(name), (column + 0.5) * size, height - foot / 2, size);
  });
  return { width, text, bottom: height - foot, top: 1.6 * text };
}

export function drawShares(map, { layers, share, parts }, chosen) {
  const { context, size } = map,
    { width, text, bottom, top } = columns(map, layers, chosen);
  const unit = context.measureText("100 %").width < size ? " %" : ""; // no room on a phone
  const fills = { position: themed("--accent"), image: themed("--muted"), local: themed("--third") };
  layers.forEach((_, layer) => {
    const values = PARTS.map((part) => Math.max(0, parts[part][layer])),
      all = values.reduce((sum, value) => sum + value, 0);
    if (!all) return;
    let from = bottom;
    PARTS.forEach((part, place) => {
      const tall = (values[place] / all) * (bottom - top);
      context.fillStyle = fills[part];
      context.fillRect((layer + 0.18) * size, from - tall, 0.64 * size, tall);
      from -= tall;
    });
    context.fillStyle = themed("--ink");
    context.fillText(`${Math.round(100 * share[layer])}${unit}`, (layer + 0.5) * size, top - 0.8 * text, size);
  });
  base(map, width, bottom);
}

export function drawAttention(map, { layers, attention }, chosen) {
  const { context, size } = map,
    { width, text, bottom, top } = columns(map, layers.slice(1), chosen - 1),
    most = 1.05 * Math.max(attention.uniform, ...attention.distance.flat()),
    at = (distance) => bottom - (distance / most) * (bottom - top);
  context.textAlign = "left";
  for (let cells = step(most); cells < most; cells += step(most)) {
    line(map, width, at(cells), themed("--line"));
    context.fillStyle = themed("--muted");
    context.fillText(cells, 0.2 * text, at(cells) - 0.7 * text);
  }
  line(map, width, at(attention.uniform), themed("--ink"), [4 * devicePixelRatio, 4 * devicePixelRatio]);
  const radius = Math.min(size / 7, 5 * devicePixelRatio);
  attention.distance.forEach((heads, block) => {
    heads.forEach((distance, head) => {
      const x = (block + 0.5 + (0.5 * (head + 0.5)) / heads.length - 0.25) * size;
      map.dot(x, at(distance), radius, themed("--accent"), themed("--card"));
    });
  });
  base(map, width, bottom);
}

export function drawMap(map, colours) {
  map.cells((cell) => `rgb(${colours[cell].join(" ")})`);
}

// A round number of cells, for about four lines.
function step(most) {
  const rough = most / 4,
    power = 10 ** Math.floor(Math.log10(rough));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
}

function base(map, width, y) {
  line(map, width, y, themed("--muted"));
}

function line(map, width, y, colour, dash = []) {
  map.line(
    [
      [0, y],
      [width, y],
    ],
    colour,
    devicePixelRatio,
    dash,
  );
}
