// Reads `identity.secretFile`: one secret per line, its bytes unchanged. Keys are derived from the first, and all of
// them verify, so that a secret can be replaced without a gap: add the new one on top, hand out new keys, remove the
// old one.

import { constants } from 'node:fs';
import { open } from 'node:fs/promises';

/** The size of the hash: guessing a shorter secret would be easier than breaking the hash. */
const MIN_SECRET = 32;
/** Each one costs an HMAC for every wrong signature. Replacing a secret needs two. */
const MAX_SECRETS = 16;
/** Far more than 16 secrets need. */
const MAX_FILE = 64 * 1024;

const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** The secrets in the order of the file; or the fault, a message to follow the file's name, which shows no secret. */
export type Secrets =
  | { readonly ok: true; readonly secrets: readonly [Uint8Array, ...Uint8Array[]] }
  | {
      readonly ok: false;
      readonly fault: string;
      /** The file could not be read, so its content is unknown. */
      readonly isUnread?: true;
    };

/** Never rejects. */
export async function readSecretFile(path: string): Promise<Secrets> {
  try {
    // Without O_NONBLOCK, opening a named pipe that nobody writes to never returns.
    await using handle = await open(path, constants.O_RDONLY | constants.O_NONBLOCK);
    const stats = await handle.stat();
    if (!stats.isFile()) return bad('must be a regular file: this is a directory, device, pipe or socket');
    if (stats.size > MAX_FILE) {
      return bad(`must have at most ${MAX_FILE} bytes: current value is ${stats.size}`);
    }
    return parseSecrets(await handle.readFile());
  } catch (error) {
    return { ok: false, fault: unreadable((error as NodeJS.ErrnoException).code), isUnread: true };
  }
}

/** Lines end with LF or CRLF; empty lines are skipped, and nothing else is trimmed. */
export function parseSecrets(bytes: Uint8Array): Secrets {
  const secrets: Uint8Array[] = [];
  for (const [index, line] of linesOf(bytes).entries()) {
    if (line.length === 0) continue;
    if (line.length < MIN_SECRET) {
      return bad(
        `line ${index + 1}: a secret must have at least ${MIN_SECRET} bytes: this line has ${line.length}. Make one with: openssl rand -base64 32`,
      );
    }
    secrets.push(line);
  }
  if (secrets.length > MAX_SECRETS) {
    return bad(`must have at most ${MAX_SECRETS} secrets: current value is ${secrets.length}`);
  }
  const [first, ...others] = secrets;
  if (first === undefined) return bad('has no secret. Make one with: openssl rand -base64 32');
  return { ok: true, secrets: [first, ...others] };
}

function linesOf(bytes: Uint8Array): Uint8Array[] {
  const lines: Uint8Array[] = [];
  for (let from = 0; from < bytes.length; ) {
    const feed = bytes.indexOf(LINE_FEED, from);
    const next = feed < 0 ? bytes.length : feed + 1;
    const end =
      feed < 0 ? bytes.length : bytes[feed - 1] === CARRIAGE_RETURN && feed > from ? feed - 1 : feed;
    // Copied: a Buffer may be part of a pool, and the secrets are sent to other threads.
    lines.push(new Uint8Array(bytes.subarray(from, end)));
    from = next;
  }
  return lines;
}

function bad(fault: string): Secrets {
  return { ok: false, fault };
}

function unreadable(code: string | undefined): string {
  switch (code) {
    case 'ENOENT':
    case 'ENOTDIR':
      return 'there is no such file';
    case 'EACCES':
    case 'EPERM':
      return 'permission denied: check the permissions of the file and its directory';
    case 'ENXIO':
      return 'must be a regular file: this is a directory, device, pipe or socket';
    default:
      return `cannot be read: ${code ?? 'unknown error'}`;
  }
}
