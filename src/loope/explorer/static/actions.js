// Export buttons: the view as Python code, as a picture, as a table.
import { font, themed } from "./colours.js";

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

// Draw the view's canvases side by side, each with its title.
export function pngBlob(pictures) {
  const width = Math.max(...pictures.map(({ canvas }) => canvas.width)),
    height = Math.max(...pictures.map(({ canvas }) => canvas.height));
  const gap = Math.round(width / 16),
    title = Math.max(14, Math.round(width / 15));
  const sheet = Object.assign(document.createElement("canvas"), {
    width: pictures.length * (width + gap) + gap,
    height: height + 3 * gap + title,
  });
  const context = sheet.getContext("2d");
  context.fillStyle = themed("--card");
  context.fillRect(0, 0, sheet.width, sheet.height);
  Object.assign(context, { fillStyle: themed("--ink"), font: font(title), textBaseline: "top" });
  pictures.forEach(({ title: text, canvas }, place) => {
    const x = gap + place * (width + gap);
    context.fillText(text, x, gap, width);
    context.drawImage(canvas, x, 2 * gap + title);
  });
  return new Promise((done) => sheet.toBlob(done, "image/png"));
}
