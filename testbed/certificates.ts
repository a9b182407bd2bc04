// Certificates for TLS servers in tests, made by the openssl command (EC P-256: a few milliseconds each) and kept for
// the lifetime of this process. They are files, because real programs read files.

import { rmSync } from 'node:fs';
import { mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { isIP } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { flag } from './flag.ts';
import { run } from './run.ts';

export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
  /** Certificate and key in one, as HAProxy wants them. */
  readonly bundleFile: string;
}

const NEW_KEY = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '30'];

let directory: Promise<string> | undefined;
const made = new Map<string, Promise<Certificate>>();

/** Subject of a client certificate. Kubernetes takes the user's name and groups from it. */
export interface ClientSubject {
  readonly user: string;
  readonly groups?: readonly string[];
}

/** A certificate authority. Others trust its certFile. */
export interface Authority extends Certificate {
  /** A certificate for these names and addresses, for servers and clients. */
  certificateFor(...names: readonly [string, ...string[]]): Promise<Certificate>;
  /** A certificate for a client alone, with a subject of its own. */
  clientCertificate(subject: ClientSubject): Promise<Certificate>;
}

/** The default authority of this process. */
export function authority(): Promise<Authority> {
  return authorityOf('Causeway test authority');
}

/** An authority of this name. The same name gives the same authority. */
export async function authorityOf(name: string): Promise<Authority> {
  const own = await makeOnce(`authority ${name}`, [
    ...flag('-subj', `/CN=${name}`),
    ...flag('-addext', 'keyUsage=critical,keyCertSign,cRLSign'),
  ]);
  const sign = (subject: string, usage: string, ...extensions: readonly string[]) =>
    makeOnce(`${name} ${subject} ${usage} ${extensions}`, [
      ...flag('-CA', own.certFile),
      ...flag('-CAkey', own.keyFile),
      ...flag('-subj', subject),
      ...flag('-addext', 'basicConstraints=critical,CA:FALSE'),
      ...flag('-addext', `extendedKeyUsage=${usage}`),
      ...extensions.flatMap(extension => flag('-addext', extension)),
    ]);
  return {
    ...own,
    certificateFor(...names) {
      const alternatives = names.map(name => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`).join(',');
      const subject = `/CN=${names[0].slice(0, 64)}`; // RFC 5280 A.1: ub-common-name
      return sign(subject, 'serverAuth,clientAuth', `subjectAltName=${alternatives}`);
    },
    clientCertificate: ({ user, groups = [] }) =>
      sign(`${groups.map(group => `/O=${group}`).join('')}/CN=${user}`, 'clientAuth'),
  };
}

/** A certificate for these names and addresses, for servers and clients. The same names give the same certificate. */
export async function certificateFor(...names: readonly [string, ...string[]]): Promise<Certificate> {
  return (await authority()).certificateFor(...names);
}

/** An expired, self-signed certificate for that name. */
export async function expiredCertificate(name: string): Promise<Certificate> {
  const own = await makeOnce(`expired ${name}`, [
    ...flag('-subj', `/CN=${name}`),
    ...flag('-addext', `subjectAltName=DNS:${name}`),
  ]);
  // openssl-x509(1) signs an existing certificate again; only this way may its dates lie in the past.
  const again = [
    'x509',
    '-in',
    own.certFile,
    '-key',
    own.keyFile,
    '-days',
    '-1',
    '-copy_extensions',
    'copyall',
  ];
  const { code, stdout, stderr } = await run('openssl', again);
  if (code !== 0) throw new Error(`Cannot make a certificate: openssl ended with code ${code}\n${stderr}`);
  await writeFile(own.certFile, stdout);
  return own;
}

function makeOnce(key: string, describe: readonly string[]): Promise<Certificate> {
  const existing = made.get(key);
  if (existing !== undefined) return existing;
  const making = make(made.size, describe);
  made.set(key, making);
  return making;
}

async function make(number: number, describe: readonly string[]): Promise<Certificate> {
  directory ??= processDirectory();
  const base = join(await directory, String(number));
  const files = { certFile: `${base}.crt`, keyFile: `${base}.key`, bundleFile: `${base}.pem` };
  const args = ['req', '-x509', ...NEW_KEY, ...flag('-keyout', files.keyFile), ...describe];
  const { code, stdout, stderr } = await run('openssl', args);
  if (code !== 0) throw new Error(`Cannot make a certificate: openssl ended with code ${code}\n${stderr}`);
  await writeFile(files.certFile, stdout);
  await writeFile(files.bundleFile, Buffer.concat([stdout, await readFile(files.keyFile)]), { mode: 0o600 });
  return files;
}

/** Outlives each test, as the certificates do. */
async function processDirectory(): Promise<string> {
  const path = await mkdtemp(join(tmpdir(), 'causeway-certificates-'));
  process.once('exit', () => rmSync(path, { recursive: true, force: true }));
  return path;
}
