// The files that an agent's flags name: its key, the gateway's CA, the certificate that `terminate` shows. Judged before
// they are used, and read again when they change; a bad one leaves what was read before.

import { X509Certificate } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { createSecureContext } from 'node:tls';
import { type ExposedFile, exposedFile } from '../config/exposed-file.ts';
import { FileWatch } from '../config/watch-file.ts';
import type { AgentOptions } from './agent-options.ts';

export interface AgentFiles {
  /** Base64url, as `causeway identity key` prints it. */
  readonly key?: string;
  /** PEM. */
  readonly ca?: string;
  readonly certificate?: { readonly cert: string; readonly key: string };
}

/** A file that cannot be used. The message names the flag and says what is wrong. */
export class AgentFileError extends Error {
  readonly code = 'ERR_AGENT_FILE';
}

const SECOND_LOOK_MS = 2000;

/** HKDF-SHA-256 gives 32 bytes. */
const KEY = /^[A-Za-z0-9_-]{43}$/;

export async function readAgentFiles(options: AgentOptions): Promise<AgentFiles> {
  const { keyFile, caFile, certFile, certKeyFile } = options;
  const key = keyFile === undefined ? undefined : readKey(keyFile, await read('key-file', keyFile));
  const ca = caFile === undefined ? undefined : readCa(caFile, await read('ca-file', caFile));
  const certificate =
    certFile === undefined || certKeyFile === undefined
      ? undefined
      : readPair(certFile, await read('cert-file', certFile), await read('cert-key-file', certKeyFile));
  return {
    ...(key !== undefined && { key }),
    ...(ca !== undefined && { ca }),
    ...(certificate !== undefined && { certificate }),
  };
}

/** Keys that others on the machine could read, with the flags that name them. */
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
  /** What is there now cannot be used. */
  bad(error: AgentFileError): void;
}

/**
 * Watches all of them. One look after the other, so that what was read last counts. Several files are seldom replaced
 * at once: what does not fit is looked at again before it is called bad.
 */
export async function watchAgentFiles(options: AgentOptions, events: AgentFileEvents): Promise<Disposable> {
  const { keyFile, caFile, certFile, certKeyFile } = options;
  const paths = [keyFile, caFile, certFile, certKeyFile].filter(path => path !== undefined);
  let isClosed = false;
  let again: NodeJS.Timeout | undefined;
  let turn: Promise<void> = Promise.resolve();
  const lookOnce = async (isSecond: boolean) => {
    try {
      const files = await readAgentFiles(options);
      if (!isClosed) events.changed(files);
    } catch (error) {
      if (isClosed) return;
      if (isSecond) events.bad(error as AgentFileError);
      else again = setTimeout(() => look(true), SECOND_LOOK_MS);
    }
  };
  const look = (isSecond: boolean) => {
    clearTimeout(again);
    turn = turn.then(() => lookOnce(isSecond));
  };
  const watches = await Promise.all(paths.map(path => FileWatch.start(path, () => look(false))));
  // A change between the first read and now would go unnoticed.
  if (paths.length > 0) look(false);
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
    const why = code === 'ENOENT' ? 'there is no such file' : code === 'EACCES' ? 'it may not be read' : code;
    throw new AgentFileError(`--${flag} cannot be read: ${path}: ${why}`, { cause: error });
  }
}

function readKey(path: string, content: string): string {
  const key = content.trim();
  if (KEY.test(key)) return key;
  throw new AgentFileError(
    `--key-file must hold the line that causeway identity key prints, 43 characters: ${path} does not`,
  );
}

function readCa(path: string, content: string): string {
  judge(
    `--ca-file must contain certificates in PEM format: ${path} does not`,
    () => new X509Certificate(content),
  );
  return content;
}

function readPair(path: string, cert: string, key: string): { readonly cert: string; readonly key: string } {
  judge(
    `--cert-file and --cert-key-file must be a certificate and its key in PEM form: ${path} and its key are not`,
    () => createSecureContext({ cert, key }),
  );
  return { cert, key };
}

function judge(wrong: string, use: () => object): void {
  try {
    use();
  } catch (error) {
    throw new AgentFileError(wrong, { cause: error });
  }
}
