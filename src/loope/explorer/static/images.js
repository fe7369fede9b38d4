// Images: built-in drawings and the visitor's files. An image is {name, bitmap, blob()}.
function scene(context, side) {
  const sky = context.createLinearGradient(0, 0, 0, side);
  sky.addColorStop(0, "#20356b");
  sky.addColorStop(0.55, "#f2a65a");
  sky.addColorStop(1, "#f6d7a7");
  const shape = (fill, ...points) => {
    context.fillStyle = fill;
    context.beginPath();
    points.forEach(([x, y]) => context.lineTo(x * side, y * side));
    context.fill();
  };
  const disc = (fill, x, y, radius) => {
    context.fillStyle = fill;
    context.beginPath();
    context.arc(x * side, y * side, radius * side, 0, 7);
    context.fill();
  };
  shape(sky, [0, 0], [1, 0], [1, 1], [0, 1]);
  disc("#fff1c9", 0.68, 0.42, 0.11);
  shape("#4a3f6b", [0, 0.62], [0.22, 0.4], [0.4, 0.58], [0.55, 0.46], [0.8, 0.66], [1, 0.55], [1, 1], [0, 1]);
  shape("#1f3b3a", [0, 0.78], [0.3, 0.7], [0.7, 0.8], [1, 0.72], [1, 1], [0, 1]);
  shape("#3a2418", [0.17, 0.9], [0.19, 0.55], [0.22, 0.55], [0.24, 0.9]);
  for (const [x, y, r] of [
    [0.2, 0.45, 0.12],
    [0.12, 0.53, 0.08],
    [0.28, 0.52, 0.09],
  ])
    disc("#14532d", x, y, r);
}

function fillCells(context, side, cells, [rows, columns]) {
  context.fillStyle = "#000";
  context.fillRect(0, 0, side, side);
  ["#f00", "#0f0", "#00f"].forEach((fill, colour) => {
    const [row, column] = cells.slice(2 * colour);
    context.fillStyle = fill;
    context.fillRect((column * side) / columns, (row * side) / rows, side / columns, side / rows);
  });
}

// A Three-Cell image; cells are row and column of red, green and blue.
export function threeCells(cells, grid) {
  const bitmap = Object.assign(document.createElement("canvas"), { width: 96, height: 96 });
  fillCells(bitmap.getContext("2d"), 96, cells, grid);
  return bitmap;
}

export const SAMPLES = {
  landscape: scene,
  "three cells": (context, side) => fillCells(context, side, [1, 1, 2, 5, 5, 2], [7, 7]),
};

// How a model expects its pixels.
export const PIXELS = [
  { value: "unit", text: "0 to 1" },
  { value: "signed", text: "-1 to 1" },
  { value: "imagenet", text: "ImageNet mean and std" },
];

export function sample(name) {
  const bitmap = Object.assign(document.createElement("canvas"), { width: 448, height: 448 });
  SAMPLES[name](bitmap.getContext("2d"), 448);
  return {
    name: `${name.replace(" ", "-")}.png`,
    bitmap,
    blob: () => new Promise((done) => bitmap.toBlob(done, "image/png")),
  };
}

// The image without its colours, so that those of a map over it can be read.
export function grey({ bitmap }) {
  const made = new OffscreenCanvas(448, 448),
    context = made.getContext("2d");
  context.filter = "grayscale(1)";
  context.drawImage(bitmap, 0, 0, 448, 448);
  return made;
}

// Put files together, each after its length: see diagnosis.py.
export function joined(blobs) {
  const length = ({ size }) => {
    const bytes = new DataView(new ArrayBuffer(4));
    bytes.setUint32(0, size, true);
    return bytes.buffer;
  };
  return new Blob(blobs.flatMap((blob) => [length(blob), blob]));
}

export async function open(file) {
  try {
    return { name: file.name, bitmap: await createImageBitmap(file), blob: async () => file };
  } catch {
    throw new Error(`${file.name} is no image that the browser can read.`);
  }
}
