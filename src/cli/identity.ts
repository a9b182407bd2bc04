// `causeway identity`: a new secret for the gateways, and the key of one cluster, to hand to its agents.

import { randomBytes } from 'node:crypto';
import { fstatSync } from 'node:fs';
import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { mustBe } from '../config/reading.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import { type Command, parse, UsageError } from './command.ts';
import { tell } from './terminal.ts';

const UNREADABLE = 1;
/** As many as HMAC-SHA-256 has any use for. */
const SECRET_BYTES = 32;

const help = `causeway identity: Make the secret and the keys that prove cluster ids

  causeway identity secret
  causeway identity key --secret-file FILE --cluster-id ID

  secret              Print a new secret for identity.secretFile of the gateways
  key                 Print the key of one cluster, for the --key-file of its agents

  --secret-file FILE  identity.secretFile: one secret per line, each of at least 32 bytes.
                      The first makes the key
  --cluster-id ID     The cluster's id, as in causeway.yaml

Both print one line of base64url without padding. With its key an agent can speak for its
own cluster and for no other: keep keys as secret as passwords. The secret itself never
leaves the gateways.

To begin, with files that only you can read:

  umask 077
  causeway identity secret > identity.secret
  causeway identity key --secret-file identity.secret --cluster-id tenant-a > tenant-a.key

To replace a secret, put a new one above the old, hand out new keys, then remove the old.
Gateways reread the file when it changes.

Exit codes: 0; 1 the file cannot be used; 64 wrong usage.`;

export const identityCommand: Command = {
  name: 'identity',
  summary: 'Make the secret and the keys that prove cluster ids',
  help,
  run,
};

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
      'Write: causeway identity secret, or causeway identity key --secret-file identity.secret --cluster-id ID',
    );
  }
  if (!CLUSTER_ID.test(id)) throw new UsageError(`--cluster-id ${mustBe(CLUSTER_ID_WORDS, id)}`);
  const read = await readSecretFile(file);
  if (!read.ok) {
    tell(`${file}: ${read.fault}`);
    return UNREADABLE;
  }
  write(clusterKey(read.secrets[0], id));
  return 0;
}

function write(secret: Uint8Array): void {
  if (goesToExposedFile()) {
    tell('causeway: others can read the file that this goes to: chmod 600 it, and say umask 077 before');
  }
  process.stdout.write(`${Buffer.from(secret).toString('base64url')}\n`);
}

/** The shell has made the file by now, with the mode that its umask leaves. */
function goesToExposedFile(): boolean {
  try {
    const stats = fstatSync(process.stdout.fd);
    return stats.isFile() && (stats.mode & 0o077) !== 0;
  } catch {
    // Closed: the write says so.
    return false;
  }
}
