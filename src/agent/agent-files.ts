// The files that an agent's flags name: its key, the gateway's CA, the certificate for `terminate`. Validated before
// use, and reread when they change; if one goes bad, the previous content stays in use.

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { type ExposedFile, exposedFile } from '../config/exposed-file.ts';
import { KeyPairError, readKeyPair } from '../config/key-pair.ts';
import { FileWatch } from '../config/watch-file.ts';
import type { AgentOptions } from './agent-options.ts';

export interface AgentFiles {
  /** Base64url, as `causeway identity key` prints it. */
  readonly key?: string;
  /** PEM. */
  readonly ca?: string;
  readonly certificate?: { readonly cert: string; readonly key: string };
}

/** A file cannot be used. The message names the flag and the problem. */
export class AgentFileError extends Error {
  readonly code = 'ERR_AGENT_FILE';
}

const SECOND_READ_MS = 2000;

/** 32 bytes of HKDF-SHA-256 in base64url. */
const KEY = /^[A-Za-z0-9_-]{43}$/;

export async function readAgentFiles(options: AgentOptions): Promise<AgentFiles> {
  const { keyFile, caFile, certFile, certKeyFile } = options;
  const key = keyFile === undefined ? undefined : readKey(keyFile, await read('key-file', keyFile));
  const ca = caFile === undefined ? undefined : readCa(caFile, await read('ca-file', caFile));
  const certificate =
    certFile === undefined || certKeyFile === undefined ? undefined : await readPair(certFile, certKeyFile);
  return {
    ...(key !== undefined && { key }),
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { certificate }),
  };
}

/** Keys that other local users could read, with the flags that name them. */
export async function exposedAgentFiles(
  { keyFile, certKeyFile }: AgentOptions,
  uid: number | undefined,
): Promise<readonly (ExposedFile & { readonly flag: string })[]> {
  const named = { '--key-file': keyFile, '--cert-key-file': certKeyFile };
  const found = Object.entries(named).map(async ([flag, file]) => {
    const exposed = file === undefined ? undefined : await exposedFile(file, uid);
    return exposed === undefined ? [] : [{ flag, ...exposed }];
  });
  return (await Promise.all(found)).flat();
}

export interface AgentFileEvents {
  changed(files: AgentFiles): void;
  /** The files as they are now cannot be used. */
  bad(error: AgentFileError): void;
}

/**
 * Watches all of them. Reads are serialised, so that the last one wins. Several files are rarely replaced at the same
 * moment: files that do not match are read again before they are reported as bad.
 */
export async function watchAgentFiles(options: AgentOptions, events: AgentFileEvents): Promise<Disposable> {
  const { keyFile, caFile, certFile, certKeyFile } = options;
  const paths = [keyFile, caFile, certFile, certKeyFile].filter(path => path !== undefined);
  let isClosed = false;
  let again: NodeJS.Timeout | undefined;
  let turn: Promise<void> = Promise.resolve();
  const readOnce = async (isSecond: boolean) => {
    try {
      const files = await readAgentFiles(options);
      if (!isClosed) events.changed(files);
    } catch (error) {
      if (isClosed) return;
      if (isSecond) events.bad(error as AgentFileError);
      else again = setTimeout(() => reread(true), SECOND_READ_MS);
    }
  };
  const reread = (isSecond: boolean) => {
    clearTimeout(again);
    turn = turn.then(() => readOnce(isSecond));
  };
  const watches = await Promise.all(paths.map(path => FileWatch.start(path, () => reread(false))));
  // Covers a change between the first read and now.
  if (paths.length > 0) reread(false);
  return {
    [Symbol.dispose]() {
      isClosed = true;
      clearTimeout(again);
      for (const watch of watches) watch[Symbol.dispose]();
    },
  };
}

async function read(flag: string, path: string): Promise<string> {
  try {
    return await readFile(path, 'latin1');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'permission denied' : code;
    throw new AgentFileError(`--${flag} cannot be read: ${path}: ${why}`, { cause: error });
  }
}

function readKey(path: string, content: string): string {
  const key = content.trim();
  if (KEY.test(key)) return key;
  throw new AgentFileError(
    `--key-file must contain the 43 characters that causeway identity key prints: ${path} does not`,
  );
}

function readCa(path: string, content: string): string {
  try {
    void new X509Certificate(content);
    return content;
  } catch (error) {
    const message = `--ca-file must contain certificates in PEM format: ${path} does not`;
    throw new AgentFileError(message, { cause: error });
  }
}

async function readPair(
  certFile: string,
  keyFile: string,
): Promise<{ readonly cert: string; readonly key: string }> {
  try {
    const { cert, key } = await readKeyPair({ certFile, keyFile });
    return { cert: cert.toString('latin1'), key: key.toString('latin1') };
  } catch (error) {
    if (!(error instanceof KeyPairError)) throw error;
    const flag = error.key === 'certFile' ? '--cert-file' : '--cert-key-file';
    throw new AgentFileError(`${flag} ${error.text}`, { cause: error });
  }
}
