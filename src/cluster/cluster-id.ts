// The form of a cluster's id, in the file, on the command line and on the wire.

export const CLUSTER_ID = /^[A-Za-z0-9._-]{1,128}$/;
/** For messages: `must be …`. */
export const CLUSTER_ID_WORDS = 'an id of 1 to 128 letters, digits, ".", "_" and "-"';
