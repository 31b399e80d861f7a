/** Sending files: raw body by PUT, progress and cancel (fetch reports no upload progress, so XMLHttpRequest). */
import { ApiError, problemOf } from "./api.js";

/**
 * @typedef {{upload_id: string, measurements: import("./types.js").Summary[], warnings: {code: string,
 *   message: string, where: string}[], skipped: any, same_as?: string}} Imported
 */

/**
 * @param {Blob} body @param {string} filename @param {(sent_frac: number) => void} progress
 * @param {string} [path]  what takes it
 * @returns {{done: Promise<Imported>, cancel: () => void}}
 */
export function upload(body, filename, progress, path = "/api/uploads?") {
  const request = new XMLHttpRequest();
  const done = new Promise((resolve, reject) => {
    request.open("PUT", `${path}filename=${encodeURIComponent(filename)}`);
    request.upload.onprogress = ({ loaded, total }) => progress(total ? loaded / total : 0);
    request.onload = () =>
      request.status < 300
        ? resolve(JSON.parse(request.responseText))
        : reject(problemOf(request.status, request.responseText));
    request.onerror = () => reject(new ApiError("The server does not answer, or it closed the connection.", 0));
    request.onabort = () => reject(new ApiError("Cancelled.", 0));
    request.send(body);
  });
  return { done, cancel: () => request.abort() };
}

const TOLD_BYTES = 256 * 1024;

/**
 * As much of a text as a preview of its tables needs, up to the end of a line; a file of another kind whole.
 * @param {Blob} blob @param {number} [most]
 */
export async function beginningOf(blob, most = TOLD_BYTES) {
  if (blob.size <= most) return blob;
  const bytes = new Uint8Array(await blob.slice(0, most).arrayBuffer());
  const [first, second] = bytes;
  const packed = (first === 0x1f && second === 0x8b) || (first === 0x50 && second === 0x4b);
  if (packed || bytes.includes(0)) return blob;
  const end = bytes.lastIndexOf(10) + 1;
  return end ? blob.slice(0, end, blob.type) : blob;
}

/**
 * The measurement that tells most about what was imported: with time or kernels before tables.
 * @param {import("./types.js").Summary[]} measurements
 */
export const chief = (measurements) =>
  measurements.find(({ step_time_s, kernels }) => step_time_s || kernels) ?? measurements[0];
