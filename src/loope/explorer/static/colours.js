// Colour scales of 256 colours, interpolated between 17 samples of the well-known ones.
const STOPS = {
  magma:
    "000004 0a0822 1d1147 36106b 51127c 6a1c81 832681 9c2e7f b73779 d0416f e75263 f56b5c fc8961 fea772 fec488 fde2a3 fcfdbf",
  viridis:
    "440154 48186a 472d7b 424086 3b528b 33638d 2c728e 26828e 21918c 1fa088 28ae80 3fbc73 5ec962 84d44b addc30 d8e219 fde725",
  coolwarm:
    "3b4cc0 4e68d8 6282ea 779af7 8db0fe a3c2fe b9d0f9 ccd9ed dddcdc ecd3c5 f5c4ac f7b093 f4987a eb7d62 dd5f4b ca3b37 b40426",
};

function table(stops) {
  const rgb = stops.split(" ").map((hex) => [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16)));
  return Array.from({ length: 256 }, (_, place) => {
    const at = (place / 255) * (rgb.length - 1),
      low = Math.min(Math.floor(at), rgb.length - 2);
    const mixed = rgb[low].map((from, channel) => Math.round(from + (rgb[low + 1][channel] - from) * (at - low)));
    return `rgb(${mixed.join(" ")})`;
  });
}

export const TABLES = Object.fromEntries(Object.entries(STOPS).map(([name, stops]) => [name, table(stops)]));

// Return a function from values to colours; if all values are equal, everything gets the middle colour.
export function scale(name, least, most) {
  const colours = TABLES[name],
    span = most - least;
  return (value) => colours[span > 0 ? Math.max(0, Math.min(255, Math.round((255 * (value - least)) / span))) : 128];
}

export function extent(...arrays) {
  let least = Infinity,
    most = -Infinity;
  for (const array of arrays)
    for (const value of array) {
      if (value < least) least = value;
      if (value > most) most = value;
    }
  return [least, most];
}

export function legend(element, name) {
  element.style.background = `linear-gradient(to right, ${STOPS[name]
    .split(" ")
    .map((hex) => `#${hex}`)
    .join(", ")})`;
}

// Resolve a colour of the style sheet for the current theme: canvases do not know CSS variables.
const resolved = new Map();
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => resolved.clear());

export function themed(name) {
  if (!resolved.has(name)) {
    const probe = document.body.appendChild(document.createElement("i"));
    probe.style.color = `var(${name})`;
    resolved.set(name, getComputedStyle(probe).color);
    probe.remove();
  }
  return resolved.get(name);
}

export const font = (size) => `600 ${size}px ${getComputedStyle(document.body).fontFamily}`;
