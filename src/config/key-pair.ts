// Reads a certificate and its key from files, validates them before use, and rereads them when they change.

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import type { KeyPairFiles } from './config.ts';
import { FileWatch } from './watch-file.ts';

/** Two files are rarely written at the same moment: a pair that does not match is read again before it is reported. */
const SECOND_LOOK_MS = 2000;

export interface KeyPair {
  readonly cert: Buffer;
  readonly key: Buffer;
}

/** The files do not contain a usable pair. The message starts with the config key of the bad file. */
export class KeyPairError extends Error {
  readonly code = 'ERR_KEY_PAIR';
  readonly key: keyof KeyPairFiles;
  /** The message without the key. */
  readonly text: string;
  /** The file could not be read, so its content is unknown. */
  readonly isUnread: boolean;

  constructor(key: keyof KeyPairFiles, text: string, options: ErrorOptions & { isUnread?: boolean } = {}) {
    super(`${key}: ${text}`, options);
    this.key = key;
    this.text = text;
    this.isUnread = options.isUnread === true;
  }
}

export async function readKeyPair({ certFile, keyFile }: KeyPairFiles): Promise<KeyPair> {
  // One after the other, so that of two bad files the certificate is always reported first.
  const cert = await readCertificate(certFile);
  const key = await readKey(keyFile);
  attempt('keyFile', `must be the key of the certificate in ${certFile}: ${keyFile} is not`, () =>
    createSecureContext({ cert, key }),
  );
  return { cert, key };
}

/** Every error of both files, where readKeyPair() throws only the first. */
export async function judgeKeyPair(files: KeyPairFiles): Promise<readonly KeyPairError[]> {
  const alone = await Promise.all([readCertificate(files.certFile), readKey(files.keyFile)].map(faultsOf));
  return alone.every(faults => faults.length === 0) ? faultsOf(readKeyPair(files)) : alone.flat();
}

async function faultsOf(reading: Promise<unknown>): Promise<readonly KeyPairError[]> {
  try {
    await reading;
    return [];
  } catch (error) {
    if (error instanceof KeyPairError) return [error];
    throw error;
  }
}

async function readCertificate(path: string): Promise<Buffer> {
  const cert = await readPem('certFile', path, 'a certificate', /-----BEGIN (TRUSTED )?CERTIFICATE-----/);
  attempt(
    'certFile',
    `must contain certificates in PEM format: ${path} does not`,
    () => new X509Certificate(cert),
  );
  return cert;
}

async function readKey(path: string): Promise<Buffer> {
  const key = await readPem('keyFile', path, 'a private key', /-----BEGIN ([A-Z]+ )?PRIVATE KEY-----/);
  if (!/ENCRYPTED/.test(key.toString('latin1'))) return key;
  throw new KeyPairError('keyFile', `must not have a passphrase: ${path} is encrypted`);
}

async function readPem(key: keyof KeyPairFiles, path: string, what: string, form: RegExp): Promise<Buffer> {
  let content: Buffer;
  try {
    content = await readFile(path);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'permission denied' : code;
    throw new KeyPairError(key, `cannot be read: ${path}: ${why}`, { cause: error, isUnread: true });
  }
  if (form.test(content.toString('latin1'))) return content;
  throw new KeyPairError(key, `must contain ${what} in PEM format: ${path} does not`);
}

function attempt(key: keyof KeyPairFiles, text: string, work: () => object): void {
  try {
    work();
  } catch (error) {
    const reason = error instanceof Error && 'reason' in error ? ` (${error.reason})` : '';
    throw new KeyPairError(key, `${text}${reason}`, { cause: error });
  }
}

export interface KeyPairEvents {
  changed(pair: KeyPair): void;
  /** The files as they are now cannot be used. */
  bad(error: KeyPairError): void;
}

export class KeyPairWatch implements Disposable {
  readonly #files: KeyPairFiles;
  readonly #events: KeyPairEvents;
  #current: KeyPair;
  #watches: FileWatch[] = [];
  #again: NodeJS.Timeout | undefined;
  #closed = false;

  private constructor(files: KeyPairFiles, current: KeyPair, events: KeyPairEvents) {
    this.#files = files;
    this.#current = current;
    this.#events = events;
  }

  /** `current` is the pair in use. */
  static async start(files: KeyPairFiles, current: KeyPair, events: KeyPairEvents): Promise<KeyPairWatch> {
    const watch = new KeyPairWatch(files, current, events);
    const paths = [files.certFile, files.keyFile];
    watch.#watches = await Promise.all(
      paths.map(path => FileWatch.start(path, () => void watch.#reread(false))),
    );
    // Covers a change between the first read and now.
    void watch.#reread(false);
    return watch;
  }

  [Symbol.dispose](): void {
    this.#closed = true;
    clearTimeout(this.#again);
    for (const watch of this.#watches) watch[Symbol.dispose]();
  }

  async #reread(isSecond: boolean): Promise<void> {
    clearTimeout(this.#again);
    try {
      const pair = await readKeyPair(this.#files);
      // Two changed files give two events for one new pair.
      if (this.#closed || isSame(pair, this.#current)) return;
      this.#current = pair;
      this.#events.changed(pair);
    } catch (error) {
      if (this.#closed) return;
      if (isSecond) this.#events.bad(error as KeyPairError);
      else this.#again = setTimeout(() => void this.#reread(true), SECOND_LOOK_MS).unref();
    }
  }
}

function isSame(a: KeyPair, b: KeyPair): boolean {
  return a.cert.equals(b.cert) && a.key.equals(b.key);
}
