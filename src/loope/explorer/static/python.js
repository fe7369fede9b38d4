// "Copy as Python": a script that prints the numbers that the page shows.
const tuple = (values) => `(${values.join(", ")})`;
const literal = (text) => (Number.isFinite(Number(text)) && text !== "" ? text : JSON.stringify(text));

export function comparePython({ made, grid, dim, patch, specs, files }) {
  let heads = Math.max(1, Math.floor(dim / 64));
  while (dim % heads) heads--;
  const moved = String(made) !== String(grid);
  const lines = ["import torch", "import loope", "", `grid, dim, patch = ${tuple(grid)}, ${dim}, ${tuple(patch)}`];
  if (moved) lines.push(`made = ${tuple(made)}  # resized from there`);
  lines.push("similarities = {}");
  const start = moved ? "made" : "grid",
    resized = moved ? ".resize(grid)" : "";
  // A table is resampled as the encoder "learned" does it.
  const table = (label, source) =>
    moved
      ? [
          `table = ${source}`,
          'encoder = loope.create_encoder("learned", table.shape[-1], made)',
          "encoder.fit(table.flatten(0, 1))",
          `similarities[${label}] = loope.encoder_similarity(encoder.resize(grid))`,
        ]
      : [`similarities[${label}] = loope.cosine_similarity(${source})`];
  for (const spec of specs) {
    const [name, ...details] = spec.split("~");
    const label = JSON.stringify([name, ...details.filter((_, place) => place % 2)].join(" "));
    if (name === "timm") {
      const model = JSON.stringify(details.join("~"));
      const state = `timm.create_model(${model}, pretrained=True).state_dict()`;
      lines.push("import timm", ...table(model, `loope.position_table(${state}, ${start})`));
    } else if (name === "file") {
      const known = files[spec] ?? { text: "model.safetensors", file: "model.safetensors" };
      const [text, file] = [JSON.stringify(known.text), JSON.stringify(known.file)];
      const named = known.table ? `, name=${JSON.stringify(known.table)}` : "";
      const encoder = `loope.load(${file}).loope.encoders[0][${details[2]}]`;
      if (details[1] === "acts" && !named)
        lines.push(`similarities[${text}] = loope.encoder_similarity(${encoder}${resized}, grid)`);
      else lines.push(...table(text, `loope.position_table(${file}, ${start}${named})`));
    } else {
      const options = details
        .flatMap((key, place) => (place % 2 ? [] : [`, ${key}=${literal(details[place + 1])}`]))
        .join("");
      lines.push(
        "torch.manual_seed(0)  # encoders are shown untrained",
        `encoder = loope.create_encoder("${name}", dim, ${start}, patch_size=16, heads=${heads}, depth=12${options})`,
        `similarities[${label}] = loope.encoder_similarity(encoder${resized})`,
      );
    }
  }
  lines.push(
    "",
    "for name, similarity in similarities.items():",
    "    scores = loope.pesi_from_similarity(similarity, grid)",
    '    print(f"{name}: M_U {scores.m_u:.4f}, M_D {scores.m_d:.4f} of {scores.m_d_ceiling:.4f}, A_SU {scores.a_su:.4f}")',
    "    print(similarity[patch[0] * grid[1] + patch[1]].view(grid))  # how alike every patch is to this one",
  );
  return lines.join("\n");
}

export function orderPython({ grid, names }) {
  return [
    "import loope",
    "",
    `for name in ${JSON.stringify(names)}:`,
    `    order = loope.create_order(name, ${grid.join(", ")})`,
    "    print(name, order.locality())",
    "    print(order.index)  # the position of each cell; order.path is the inverse",
  ].join("\n");
}

const MEAN = { unit: null, signed: "[0.5] * 3, [0.5] * 3", imagenet: "[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]" };

export function offsetsPython({ grid, patch, plane, image, shipped, checkpoint, pixels }) {
  const [height, width] = grid.map((side) => side * patch);
  const lines = ["import torch", "from PIL import Image, ImageOps"];
  if (image.shipped) lines.unshift("from importlib.resources import files");
  if (shipped)
    lines.push("from loope.explorer.model import shipped_encoder", "", `encoder = shipped_encoder(${JSON.stringify(shipped)})`);
  else
    lines.push(
      "import loope",
      "",
      `encoders = loope.load(${JSON.stringify(checkpoint)}).float().loope.encoders[0]`,
      'encoders = [getattr(each, "encoder", each) for each in encoders]  # without a projection',
      'encoder = next(each for each in encoders if getattr(each, "generator", None) is not None)',
    );
  const opened = image.shipped
    ? `files("loope.explorer") / "static" / ${JSON.stringify(image.name)}`
    : JSON.stringify(image.name);
  lines.push(
    `image = ImageOps.exif_transpose(Image.open(${opened})).convert("RGB").resize((${width}, ${height}), Image.Resampling.BICUBIC)`,
    `pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(${height}, ${width}, 3).permute(2, 0, 1) / 255`,
  );
  if (MEAN[pixels])
    lines.push(
      `mean, std = (torch.tensor(values).view(3, 1, 1) for values in (${MEAN[pixels]}))`,
      "pixels = (pixels - mean) / std",
    );
  lines.push(
    "with torch.no_grad():",
    `    offsets = encoder.offsets(pixels[None], ${tuple(grid)})[0]  # X_C`,
    plane
      ? "moves = offsets.norm(dim=-1)  # of rows and columns, in cells"
      : `    refined = encoder.refined_index(pixels[None], ${tuple(grid)})[0]  # X_G + X_C\nmoves = offsets.abs()`,
    'print(f"patches move {moves.mean():.4f} on average, {moves.max():.4f} at most")',
    `print(offsets.view(${[...grid, ...(plane ? [2] : [])].join(", ")}))`,
  );
  return lines.join("\n");
}

export function modelPython({ size, images, pixels, checkpoint }) {
  const lines = ["import torch", "import loope"];
  if (!checkpoint) lines.push("from loope.explorer.model import SHIPPED");
  if (images) lines.push("from PIL import Image, ImageOps");
  else lines.push("from loope.explorer.diagnosis import CELLS, built_in", "from loope.three_cell.rendering import render");
  lines.push("", `model = loope.load(${checkpoint ? JSON.stringify(checkpoint) : "SHIPPED"}).float()`);
  if (images)
    lines.push(
      "pixels = []",
      `for name in ${JSON.stringify(images)}:`,
      `    image = ImageOps.exif_transpose(Image.open(name)).convert("RGB").resize((${size[1]}, ${size[0]}), Image.Resampling.BICUBIC)`,
      `    pixels.append(torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(${size.join(", ")}, 3).permute(2, 0, 1) / 255)`,
      "pixels = torch.stack(pixels)",
    );
  else
    lines.push(`pixels = torch.nn.functional.interpolate(render(built_in(), CELLS, 1), ${tuple(size)}, mode="nearest")`);
  if (MEAN[pixels])
    lines.push(
      `mean, std = (torch.tensor(values).view(3, 1, 1) for values in (${MEAN[pixels]}))`,
      "pixels = (pixels - mean) / std",
    );
  lines.push(
    "",
    "shares = loope.position_share(model, pixels)",
    "for name, share in zip(shares.layers, shares.share):",
    '    print(f"{name}: {share:.1%} position")',
    "attention = loope.attention_distance(model, pixels)",
    "for block, heads in enumerate(attention.distance, start=1):",
    '    print(f"block {block}: heads look {heads.mean():.2f} cells far, {heads.min():.2f} to {heads.max():.2f}")',
    "colours = loope.position_artifacts(model, pixels).colours()  # (layers, h, w, 3)",
  );
  return lines.join("\n");
}

export function measuredPython(name) {
  return [
    "import json",
    "from loope.explorer.diagnosis import measured_data",
    "",
    `data = json.loads(measured_data(${JSON.stringify(name)}))  # numbers only; docs/ship_diagnosis.py measures them`,
    'for name, share in zip(data["layers"], data["share"]):',
    '    print(f"{name}: {share:.1%} position")',
    'for block, heads in enumerate(data["attention"]["distance"], start=1):',
    '    print(f"block {block}: heads look {sum(heads) / len(heads):.2f} cells far, {min(heads):.2f} to {max(heads):.2f}")',
  ].join("\n");
}

export function threeCellPython({ grid, cells, model }) {
  const lines = [
    "import torch",
    "import loope",
    "from loope.core.grid import Grid",
    "from loope.three_cell.bits import in_words",
    "from loope.three_cell.questions import answer",
  ];
  if (model)
    lines.push("from loope.three_cell.rendering import render", "from loope.explorer.model import SHIPPED");
  lines.push(
    "",
    `grid = Grid${tuple(grid)}`,
    `cells = torch.tensor([[${cells.map((cell) => `[${cell.join(", ")}]`).join(", ")}]])  # row, column of red, green, blue`,
    "label = answer(cells, grid)[0]",
    "print(label.tolist(), in_words(label.tolist()))",
  );
  if (model)
    lines.push(
      "with torch.no_grad():",
      `    logits = loope.load(SHIPPED).float()(render(cells, grid, ${model.patch}) * 2 - 1)[0]`,
      'print("the model:", (logits > 0).long().tolist())',
    );
  return lines.join("\n");
}
