// Export buttons: the view as Python code, as a picture, as a table.
import { font, TABLES, themed } from "./colours.js";

export function showCode(text) {
  const dialog = document.getElementById("code"),
    code = dialog.querySelector("code");
  code.textContent = text;
  dialog.onclick = async ({ target }) => {
    if (target === dialog || target.dataset.do === "close") dialog.close();
    if (target.dataset.do !== "copy") return;
    try {
      await navigator.clipboard.writeText(text);
      target.textContent = "Copied";
      setTimeout(() => (target.textContent = "Copy"), 1500);
    } catch {
      getSelection().selectAllChildren(code); // no clipboard access here: select the code, so that Ctrl-C copies it
    }
  };
  dialog.showModal();
}

export function download(name, blob) {
  const link = Object.assign(document.createElement("a"), { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function csvBlob(rows) {
  const cell = (value) => (/[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  return new Blob([rows.map((row) => row.map(cell).join(",")).join("\n"), "\n"], { type: "text/csv" });
}

// Draw the view's canvases side by side, as large as they are, each below its title and above its scale of colours.
// pictures: {title, canvas, ramp: {colours, ends}}; not every picture has a ramp.
export function pngBlob(pictures) {
  const unit = 16 * devicePixelRatio, // the size of letters, whatever that of the pictures
    sheet = document.createElement("canvas"),
    context = sheet.getContext("2d");
  const write = () => Object.assign(context, { fillStyle: themed("--ink"), font: font(unit), textBaseline: "top" });
  write();
  const widths = pictures.map(({ title, canvas }) => Math.ceil(Math.max(canvas.width, context.measureText(title).width)));
  const top = 2.5 * unit,
    below = pictures.some(({ ramp }) => ramp) ? 2.5 * unit : 0;
  sheet.width = widths.reduce((sum, width) => sum + width + unit, unit);
  sheet.height = top + Math.max(...pictures.map(({ canvas }) => canvas.height)) + below + unit;
  context.fillStyle = themed("--card");
  context.fillRect(0, 0, sheet.width, sheet.height);
  write(); // a new size forgets it
  let x = unit;
  pictures.forEach(({ title, canvas, ramp }, place) => {
    context.fillText(title, x, unit);
    context.drawImage(canvas, x, top);
    if (ramp) drawRamp(context, ramp, [x, top + canvas.height + unit / 2, canvas.width], unit);
    x += widths[place] + unit;
  });
  return new Promise((done) => sheet.toBlob(done, "image/png"));
}

// Draw a scale of colours with the values at its ends.
function drawRamp(context, { colours, ends }, [x, y, width], unit) {
  const table = TABLES[colours];
  for (let column = 0; column < width; column++) {
    context.fillStyle = table[Math.round((255 * column) / Math.max(1, width - 1))];
    context.fillRect(x + column, y, 1, unit / 2);
  }
  context.fillStyle = themed("--ink");
  ends.forEach((end, place) => {
    context.textAlign = place ? "right" : "left";
    context.fillText(end, x + place * width, y + 0.75 * unit);
  });
  context.textAlign = "left";
}
