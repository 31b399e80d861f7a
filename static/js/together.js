/** Files that belong together: traces of several ranks are sent as one tar, which the server reads as one job. */

const BLOCK = 512;
const HEAD_BYTES = 65536;
const TRACE = /"(?:traceEvents|schemaVersion|deviceProperties|distributedInfo)"/;
const NAMED = /\.json(?:\.gz)?$/i;

/** @typedef {{path: string, body: Blob}} Member */

/** Where files of a dropped folder stand in it. @type {WeakMap<File, string>} */
const paths = new WeakMap();

/** A number as tar writes it. @param {number} value @param {number} width */
const octal = (value, width) => `${value.toString(8).padStart(width - 1, "0")}\0`;

/** The block before a file: its name, cut from the left where it is too long, and its size. @param {Member} member */
export function header({ path, body }) {
  const block = new Uint8Array(BLOCK);
  const write = (/** @type {string} */ text, /** @type {number} */ at) => block.set(new TextEncoder().encode(text), at);
  block.set(new TextEncoder().encode(path).slice(-100), 0);
  write(octal(0o644, 8), 100);
  write(octal(0, 8), 108);
  write(octal(0, 8), 116);
  write(octal(body.size, 12), 124);
  write(octal(0, 12), 136);
  write(" ".repeat(8), 148);
  write("0", 156);
  write("ustar\u000000", 257);
  const sum = block.reduce((total, byte) => total + byte, 0);
  write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}

/** One archive of several files; their content is not read. @param {Member[]} members */
function tar(members) {
  const parts = members.flatMap((member) => [
    header(member),
    member.body,
    new Uint8Array((BLOCK - (member.body.size % BLOCK)) % BLOCK),
  ]);
  return new Blob([...parts, new Uint8Array(2 * BLOCK)], { type: "application/x-tar" });
}

/** The first bytes of a file as text, unpacked where they are gzip. @param {Blob} file */
async function head(file) {
  const start = file.slice(0, HEAD_BYTES);
  const [first, second] = new Uint8Array(await start.slice(0, 2).arrayBuffer());
  if (first !== 0x1f || second !== 0x8b) return start.text();
  const reader = start.stream().pipeThrough(new DecompressionStream("gzip")).getReader();
  const { value } = await reader.read();
  await reader.cancel().catch(() => {});
  return new TextDecoder().decode(value);
}

/** Whether a file is a trace, by its name and how it begins. @param {{name: string} & Blob} file */
export async function isTrace(file) {
  if (!NAMED.test(file.name)) return false;
  try {
    return TRACE.test(await head(file));
  } catch {
    return false; // the server says what is wrong with it
  }
}

/**
 * What to send: every file by itself, and in place of several traces one archive of them.
 * @param {File[]} files @returns {Promise<{name: string, body: Blob}[]>}
 */
export async function parcels(files) {
  const traces = await Promise.all(files.map(isTrace));
  const ranks = files.filter((_, at) => traces[at]);
  if (ranks.length < 2) return files.map((file) => ({ name: file.name, body: file }));
  const together = tar(
    ranks.map((file) => ({ path: paths.get(file) || file.webkitRelativePath || file.name, body: file })),
  );
  const others = files.filter((_, at) => !traces[at]).map((file) => ({ name: file.name, body: file }));
  return [{ name: `${ranks.length} traces (${ranks[0].name} …)`, body: together }, ...others];
}

/** The files of what was dropped, folders searched. @param {DataTransfer} transfer @returns {Promise<File[]>} */
export async function dropped(transfer) {
  const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter((entry) => entry !== null);
  if (!entries.some((entry) => entry?.isDirectory)) return [...transfer.files];
  const found = await Promise.all(entries.map((entry) => (entry ? filesIn(entry) : [])));
  return found.flat();
}

/** @param {FileSystemEntry} entry @returns {Promise<File[]>} */
async function filesIn(entry) {
  if (entry.name.startsWith(".")) return [];
  if (entry.isFile) {
    /** @type {File} */
    const file = await new Promise((resolve, reject) =>
      /** @type {FileSystemFileEntry} */ (entry).file(resolve, reject),
    );
    paths.set(file, entry.fullPath.replace(/^\//, ""));
    return [file];
  }
  const reader = /** @type {FileSystemDirectoryEntry} */ (entry).createReader();
  /** @type {File[]} */
  const found = [];
  for (;;) {
    /** @type {FileSystemEntry[]} */
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (!some.length) return found;
    found.push(...(await Promise.all(some.map(filesIn))).flat());
  }
}
