// Draw Three-Cell: the cells, the geometry of the selected question, and where the model would be wrong.
import { font } from "./colours.js";

const PAINT = ["#ff3b30", "#2fd158", "#3d7bff"];
const PALE = "#ffffffd0";

export function drawCells(map, view) {
  const centres = [0, 1, 2].map((which) => map.centre(view.place(which)));
  const thin = Math.max(1.5, map.size / 22);
  map.cells(() => "#000");
  if (view.wrongs && view.model) {
    map.cells((cell) => view.model.wrong[cell] && `rgb(255 190 60 / ${0.25 + 0.13 * view.model.wrong[cell]})`);
  }
  QUESTIONS[view.question](map, centres, thin, view.told);
  centres.forEach(([x, y], which) => {
    const { context, size } = map,
      side = size * 0.84;
    context.beginPath();
    context.roundRect(x - side / 2, y - side / 2, side, side, size * 0.12);
    Object.assign(context, { fillStyle: PAINT[which], strokeStyle: "#fff", lineWidth: thin * 1.4 });
    context.fill();
    if (which === view.moving) context.stroke();
    Object.assign(context, { fillStyle: "#fff", font: font(size * 0.42), textAlign: "center", textBaseline: "middle" });
    context.fillText("RGB"[which], x, y + size * 0.02);
  });
}

const QUESTIONS = {
  distance(map, [red, green, blue], thin) {
    map.line([red, green], PAINT[1], thin * 1.5);
    map.line([red, blue], PAINT[2], thin * 1.5);
  },
  orientation(map, [red, green, blue], thin) {
    map.shade([red, green, blue], "#ffffff26");
    map.line([red, green, blue, red], PALE, thin);
    for (const [[x, y], [u, v]] of [
      [red, green],
      [green, blue],
      [blue, red],
    ]) {
      map.arrow([x, y], [(x + 2 * u) / 3, (y + 2 * v) / 3], PALE, thin);
    }
  },
  area(map, [red, green, blue], thin) {
    const ground = map.canvas.height;
    map.shade([red, green, [green[0], ground], [red[0], ground]], "#2fd15855");
    map.shade([red, blue, [blue[0], ground], [red[0], ground]], "#3d7bff66");
    QUESTIONS.distance(map, [red, green, blue], thin);
  },
  vector_sum(map, ends, thin, { sum: [x, y] }) {
    const centre = [map.canvas.width / 2, map.canvas.height / 2];
    for (const end of ends) map.line([centre, end], "#ffffff80", thin, [thin * 2, thin * 3]);
    // The sum is doubled to stay an integer; y points up.
    map.arrow(centre, [centre[0] + (x / 2) * map.size, centre[1] - (y / 2) * map.size], "#ffd166", thin * 2);
    map.dot(...centre, thin * 2, "#fff");
  },
};
