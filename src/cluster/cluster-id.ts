// The form of a cluster's id, in the file, on the command line and on the wire.

export const CLUSTER_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** For messages: `must be …`. */
export const CLUSTER_ID_WORDS = 'an id of 1 to 128 letters, digits, ".", "_" and "-"';

/** An id from the wire as logs and lists show it: one that cannot be an id may be anything, of any length. */
export function shownClusterId(id: string): string {
  return CLUSTER_ID.test(id) ? id : `invalid (${id.length} bytes)`;
}
