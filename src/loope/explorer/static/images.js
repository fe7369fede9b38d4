// Images: those that ship with the page (see SHIPPED.md) and the visitor's files. An image is {name, bitmap, blob()}.
import { blob } from "./data.js";

// A Three-Cell image; cells are row and column of red, green and blue.
export function threeCells(cells, [rows, columns]) {
  const side = 96,
    bitmap = Object.assign(document.createElement("canvas"), { width: side, height: side }),
    context = bitmap.getContext("2d");
  context.fillStyle = "#000";
  context.fillRect(0, 0, side, side);
  ["#f00", "#0f0", "#00f"].forEach((fill, colour) => {
    const [row, column] = cells.slice(2 * colour);
    context.fillStyle = fill;
    context.fillRect((column * side) / columns, (row * side) / rows, side / columns, side / rows);
  });
  return bitmap;
}

// Files beside this one, so that copied Python can open them; the first one is shown at the start.
export const SAMPLES = { cat: "cat.jpg", landscape: "landscape.png", "three cells": "three-cells.png" };
export const FIRST = Object.keys(SAMPLES)[0];
const samples = {};

// Load the files once, before the first view: views take samples without waiting.
export async function loadSamples() {
  const load = async ([name, file]) => (samples[name] = { ...(await open(await blob(file))), name: file, shipped: true });
  await Promise.all(Object.entries(SAMPLES).map(load));
}

export const sample = (name) => samples[name];

// How a model expects its pixels.
export const PIXELS = [
  { value: "unit", text: "0 to 1" },
  { value: "signed", text: "-1 to 1" },
  { value: "imagenet", text: "ImageNet mean and std" },
];

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
