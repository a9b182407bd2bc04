// `causeway identity`: generates a secret for the gateways, or the key of one cluster for its agents.

import { randomBytes } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { mustBe } from '../config/reading.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import { type Command, parse, UsageError } from './command.ts';
import { printError } from './terminal.ts';

const UNREADABLE = 1;
/** The output length of SHA-256; a longer secret would make HMAC no stronger. */
const SECRET_BYTES = 32;

const help = `causeway identity: Generate the secret and the keys that sign cluster ids

  causeway identity secret
  causeway identity key --secret-file FILE --cluster-id ID

  secret              Print a new secret for identity.secretFile of the gateways
  key                 Print the key of one cluster, for the --key-file of its agents

  --secret-file FILE  identity.secretFile: one secret per line, each of at least 32 bytes.
                      The key is derived from the first
  --cluster-id ID     The cluster's id, as in causeway.yaml

Both print one line of base64url without padding. A key lets an agent sign for its own cluster
and no other: protect keys like passwords. The secret itself never leaves the gateways.

To start, with files that only you can read:

  umask 077
  causeway identity secret > identity.secret
  causeway identity key --secret-file identity.secret --cluster-id tenant-a > tenant-a.key

To replace a secret, put a new one above the old, hand out new keys, then remove the old.
Gateways reread the file when it changes.

Exit codes: 0; 1 unusable file; 64 wrong usage.`;

export const identityCommand: Command = { help, run };

async function run(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'identity',
    args,
    { 'secret-file': { type: 'string' }, 'cluster-id': { type: 'string' } },
    true,
  );
  const { 'secret-file': file, 'cluster-id': id } = values;
  if (positionals.length === 1 && positionals[0] === 'secret' && file === undefined && id === undefined) {
    write(randomBytes(SECRET_BYTES));
    return 0;
  }
  if (positionals.length !== 1 || positionals[0] !== 'key' || !file || id === undefined) {
    throw new UsageError(
      'Usage: causeway identity secret, or causeway identity key --secret-file identity.secret --cluster-id ID',
    );
  }
  if (!CLUSTER_ID.test(id)) throw new UsageError(`--cluster-id ${mustBe(CLUSTER_ID_WORDS, id)}`);
  const read = await readSecretFile(file);
  if (!read.ok) {
    printError(`${file}: ${read.fault}`);
    return UNREADABLE;
  }
  write(clusterKey(read.secrets[0], id));
  return 0;
}

function write(secret: Uint8Array): void {
  if (goesToExposedFile()) {
    printError(
      'causeway: other users can read the output file: chmod 600 it, and run umask 077 first next time',
    );
  }
  process.stdout.write(`${Buffer.from(secret).toString('base64url')}\n`);
}

/** The shell has already created the file, with the mode that its umask leaves. */
function goesToExposedFile(): boolean {
  try {
    const stats = fstatSync(process.stdout.fd);
    return stats.isFile() && (stats.mode & 0o077) !== 0;
  } catch {
    // stdout is closed: the write reports it.
    return false;
  }
}
