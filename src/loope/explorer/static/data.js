// Data from the server, or from files beside the page: the addresses are the same.
const fetched = new Map();

const SECONDS = { GET: 45, POST: 120 }; // longer than the server's own timeouts

async function ask(address, options = { method: "GET" }) {
  const seconds = SECONDS[options.method];
  let response;
  try {
    response = await fetch(address, { ...options, signal: AbortSignal.timeout(1000 * seconds) });
  } catch (error) {
    if (error.name === "TimeoutError") throw new Error(`The explorer did not answer within ${seconds} seconds.`);
    throw new Error("The explorer does not answer. Is it still running?");
  }
  if (response.ok) return response;
  const told = await response.json().catch(() => ({}));
  throw new Error(told.error ?? `The explorer answered ${response.status}.`);
}

// Fetch each address once; failed requests can be repeated.
function once(address, read) {
  if (!fetched.has(address)) {
    const promise = ask(address).then(read);
    promise.catch(() => fetched.delete(address));
    fetched.set(address, promise);
    if (fetched.size > 64) fetched.delete(fetched.keys().next().value);
  }
  return fetched.get(address);
}

export const json = (address) => once(address, (response) => response.json());
export const arrays = (address) => once(address, async (response) => unpack(await response.arrayBuffer()));
export const blob = async (address) => (await ask(address)).blob();
export const post = async (address, body) => (await ask(address, { method: "POST", body })).json();

// Decode the header's length, the header as JSON, then float32 arrays: see serialization.py.
export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const about = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let offset = 4 + length;
  for (const [name, shape] of about.arrays) {
    const count = shape.reduce((product, side) => product * side, 1);
    about[name] = new Float32Array(buffer, offset, count);
    offset += 4 * count;
  }
  return about;
}

// Upload only the position tables and encoders of a safetensors file, not the whole model.
export async function slimSafetensors(file) {
  const head = new DataView(await file.slice(0, 8).arrayBuffer());
  const length = head.byteLength === 8 ? Number(head.getBigUint64(0, true)) : Infinity;
  if (length > Math.min(file.size, 1e8)) throw new Error(`${file.name} is no .safetensors file.`);
  let header;
  try {
    header = JSON.parse(await file.slice(8, 8 + length).text());
  } catch {
    throw new Error(`${file.name} is no .safetensors file, or it is damaged.`);
  }
  const kept = {},
    parts = [];
  let offset = 0;
  for (const [name, tensor] of Object.entries(header)) {
    if (name === "__metadata__") kept[name] = tensor;
    else if (/pos|(^|\.)loope\./.test(name)) {
      const [start, end] = tensor.data_offsets;
      parts.push(file.slice(8 + length + start, 8 + length + end));
      kept[name] = { ...tensor, data_offsets: [offset, offset + end - start] };
      offset += end - start;
    }
  }
  const text = new TextEncoder().encode(JSON.stringify(kept));
  const size = new DataView(new ArrayBuffer(8));
  size.setBigUint64(0, BigInt(text.length), true);
  return new Blob([size.buffer, text, ...parts]);
}
