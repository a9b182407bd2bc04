// The format of a cluster id, in the file, on the command line and on the wire.

export const CLUSTER_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** Completes `must be …` in messages. */
export const CLUSTER_ID_WORDS = 'an id of 1 to 128 letters, digits, ".", "_" and "-"';

/** Formats an id from the wire for logs and lists. An invalid one may contain anything, so only its length is shown. */
export function shownClusterId(id: string): string {
  return CLUSTER_ID.test(id) ? id : `invalid (${id.length} bytes)`;
}
