// Draw LOOPE on an image: shifts along the curve, X_C as a map, and X_C along the curve.
import { scale, themed } from "./colours.js";

const LINK = "#ffe14d";
const colours = (view) => scale("coolwarm", -view.most, view.most);

export function drawMoves(map, view) {
  const { offsets, index } = view.data,
    { along } = view,
    colour = colours(view),
    width = map.size / 12;
  map.context.globalAlpha = 0.8;
  map.picture(view.image.bitmap);
  map.context.globalAlpha = 1;
  map.line(
    along.map((cell) => map.centre(cell)),
    "#fff9",
    map.size / 24,
  );
  offsets.forEach((offset, cell) => {
    const next = along[Math.max(0, Math.min(along.length - 1, index[cell] + Math.sign(offset)))];
    const [x, y] = map.centre(cell),
      [u, v] = map.centre(next),
      share = Math.abs(offset);
    const tip = [x + (u - x) * share, y + (v - y) * share];
    map.dot(x, y, width, "#000");
    map.arrow([x, y], tip, "#000", 2 * width, 3 * width);
    map.arrow([x, y], tip, colour(offset), width, 3 * width);
  });
  if (view.patch != null) map.mark(view.patch);
}

export function drawHeat(map, view) {
  const colour = colours(view);
  map.cells((cell) => colour(view.data.offsets[cell]));
  for (const pair of view.data.swapped) {
    const ends = pair.map((cell) => map.centre(cell));
    map.line(ends, "#000", map.size / 6);
    map.line(ends, LINK, map.size / 12);
    for (const end of ends) map.dot(...end, map.size / 9, LINK, "#000");
  }
  if (view.patch != null) map.mark(view.patch);
}

export function drawChart(map, view) {
  const { context, size } = map,
    { width, height } = map.canvas,
    colour = colours(view),
    middle = height / 2;
  const [ink, accent] = [themed("--ink"), themed("--accent")];
  map.line(
    [
      [0, middle],
      [width, middle],
    ],
    themed("--line"),
    devicePixelRatio,
  );
  view.along.forEach((cell, position) => {
    const offset = view.data.offsets[cell],
      tall = (offset / view.most) * middle * 0.94,
      chosen = cell === view.patch;
    const bar = [(position + 0.12) * size, middle - Math.max(tall, 0), 0.76 * size, Math.max(Math.abs(tall), 1)];
    Object.assign(context, { fillStyle: colour(offset), strokeStyle: chosen ? accent : ink });
    context.lineWidth = (chosen ? 2.5 : 1.2) * devicePixelRatio;
    context.fillRect(...bar);
    if (chosen || view.partner.has(cell)) context.strokeRect(...bar);
  });
}
