// Authentication and authorisation of the admin side: Basic auth against password files. A change needs more than a
// password, which a browser sends unasked: a content type that no form of another site can send, and no foreign Origin.

import { createHash, timingSafeEqual } from 'node:crypto';
import { constants } from 'node:fs';
import { open } from 'node:fs/promises';
import type { AdminRole, AdminUser } from '../config/config.ts';

/** Bounds the work for a request, whatever the file is. */
const MAX_PASSWORD_BYTES = 4096;

export interface Refusal {
  readonly status: 403 | 415;
  readonly text: string;
}

/** From the Authorization header. */
export interface Credentials {
  readonly username: string;
  readonly password: string;
}

/**
 * Undefined if no user has that name and password. The work is the same for every name, so that the time it takes does not
 * reveal which users exist.
 */
export async function roleOf(
  users: readonly AdminUser[],
  given: Credentials,
  read: typeof readPassword = readPassword,
): Promise<AdminRole | undefined> {
  const [name, password] = [digest(given.username), digest(given.password)];
  const expected = await Promise.all(users.map(({ passwordFile }) => read(passwordFile)));
  let role: AdminRole | undefined;
  for (const [index, user] of users.entries()) {
    const file = expected[index];
    const isName = timingSafeEqual(name, digest(user.username));
    const isPassword = timingSafeEqual(password, digest('text' in file ? file.text : ''));
    if (isName && isPassword && 'text' in file) role = user.role;
  }
  return role;
}

/** Users who cannot log in because of their password file, and why. */
export async function lockedOut(
  users: readonly AdminUser[],
): Promise<{ readonly username: string; readonly file: string; readonly error: string }[]> {
  const found = users.map(async ({ username, passwordFile: file }) => {
    const password = await readPassword(file);
    return 'error' in password ? [{ username, file, error: password.error }] : [];
  });
  return (await Promise.all(found)).flat();
}

/** Why this change is refused. `host` is the Host header, which has been checked. */
export function refusedChange(
  role: AdminRole,
  { contentType, origin, host }: Readonly<Record<'contentType' | 'origin' | 'host', string | undefined>>,
): Refusal | undefined {
  if (role !== 'admin') {
    return { status: 403, text: 'Changes take role admin; yours is viewer' };
  }
  if (contentType?.split(';', 1)[0].trim().toLowerCase() !== 'application/json') {
    return { status: 415, text: 'A change needs the header Content-Type: application/json' };
  }
  if (origin !== undefined && !isSameOrigin(origin, host ?? '')) {
    return { status: 403, text: `Pages of ${origin} may not change anything here` };
  }
  return undefined;
}

/** Compared without the scheme: a proxy in front may terminate TLS. */
function isSameOrigin(origin: string, host: string): boolean {
  if (!/^https?:\/\//i.test(origin)) return false;
  try {
    const { protocol, host: theirs } = new URL(origin);
    return theirs === new URL(`${protocol}//${host}`).host;
  } catch {
    return false;
  }
}

/** RFC 7617. */
export function basicCredentials(header: string): Credentials | undefined {
  const match = /^Basic +([A-Za-z0-9+/]+=*)$/i.exec(header);
  if (match === null) return undefined;
  const text = Buffer.from(match[1], 'base64').toString('utf8');
  const colon = text.indexOf(':');
  return colon < 0 ? undefined : { username: text.slice(0, colon), password: text.slice(colon + 1) };
}

/** Read for each request, so that a changed password takes effect at once. */
async function readPassword(file: string): Promise<{ readonly text: string } | { readonly error: string }> {
  try {
    // O_NONBLOCK: opening a pipe that nobody writes to would never return.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK);
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_PASSWORD_BYTES + 1));
    if (bytesRead > MAX_PASSWORD_BYTES) return { error: `it has more than ${MAX_PASSWORD_BYTES} bytes` };
    const text = buffer.toString('utf8', 0, bytesRead).replace(/\r?\n$/, '');
    return text === '' ? { error: 'it is empty' } : { text };
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return { error: code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})` };
  }
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
