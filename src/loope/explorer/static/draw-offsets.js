// Draw LOOPE on an image: moves along the curve or in the plane, X_C as a map, and X_C along the curve.
import { scale, themed } from "./colours.js";

const LINK = "#ffe14d";
const SHORTEST = 6; // pixels of an arrow
// On a curve signs have a meaning; in the plane only how far a patch moves.
const colours = (view) => (view.plane ? scale("viridis", 0, view.most) : scale("coolwarm", -view.most, view.most));

export function drawMoves(map, view) {
  const { offsets, index } = view.data,
    { along, times } = view,
    colour = colours(view),
    width = map.size / 12;
  map.context.globalAlpha = 0.8;
  map.picture(view.image.bitmap);
  map.context.globalAlpha = 1;
  if (!view.plane)
    map.line(
      along.map((cell) => map.centre(cell)),
      "#fff9",
      map.size / 24,
    );
  const tipOf = (cell, [x, y]) => {
    if (view.plane) return [x + times * offsets[cell][1] * map.size, y + times * offsets[cell][0] * map.size];
    const share = times * Math.abs(offsets[cell]);
    const next = along[Math.max(0, Math.min(along.length - 1, index[cell] + Math.sign(offsets[cell])))];
    const [u, v] = map.centre(next);
    return [x + (u - x) * share, y + (v - y) * share];
  };
  offsets.forEach((_, cell) => {
    const [x, y] = map.centre(cell),
      tip = tipOf(cell, [x, y]);
    // An arrow this short is a blob.
    if (Math.hypot(tip[0] - x, tip[1] - y) < SHORTEST * devicePixelRatio)
      return map.dot(x, y, width, colour(view.value(cell)), "#000");
    map.dot(x, y, width, "#000");
    map.arrow([x, y], tip, "#000", 2 * width, 3 * width);
    map.arrow([x, y], tip, colour(view.value(cell)), width, 3 * width);
  });
  if (view.patch != null) map.mark(view.patch);
}

export function drawHeat(map, view) {
  const colour = colours(view);
  map.cells((cell) => colour(view.value(cell)));
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
