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

/**
 * The measurement that tells most about what was imported: with time or kernels before tables.
 * @param {import("./types.js").Summary[]} measurements
 */
export const chief = (measurements) =>
  measurements.find(({ step_time_s, kernels }) => step_time_s || kernels) ?? measurements[0];
