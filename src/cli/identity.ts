// `causeway identity key`: the key of one cluster, to hand to its agents.

import { CLUSTER_ID, CLUSTER_ID_WORDS } from '../cluster/cluster-id.ts';
import { mustBe } from '../config/reading.ts';
import { clusterKey } from '../identity/cluster-key.ts';
import { readSecretFile } from '../identity/secret-file.ts';
import { type Command, parse, UsageError } from './command.ts';
import { tell } from './terminal.ts';

const UNREADABLE = 1;

const help = `causeway identity key --secret-file F --cluster-id ID: the key of one cluster, for its agents

  --secret-file F     identity.secretFile of the gateways: one secret per line, each of at
                      least 32 bytes. The first makes the key
  --cluster-id ID     the cluster's id, as in causeway.yaml

The key goes to stdout: base64url without padding, one line. An agent's --key-file holds that
line. With it an agent can speak for this cluster and for no other; keep it as secret as a
password. The secret itself never leaves the gateways.

To begin:            openssl rand -base64 32 > identity.secret
To replace a secret: put the new one above the old, hand out new keys, take the old out.
                     Gateways read the file again when it changes.

Exit codes: 0; 1 the file cannot be used; 64 wrong usage.`;

export const identityCommand: Command = {
  name: 'identity',
  summary: 'makes the key with which agents prove a cluster id',
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
  const { 'secret-file': file = '', 'cluster-id': id } = values;
  if (positionals.length !== 1 || positionals[0] !== 'key' || file === '' || id === undefined) {
    throw new UsageError('Write: causeway identity key --secret-file identity.secret --cluster-id ID');
  }
  if (!CLUSTER_ID.test(id)) throw new UsageError(`--cluster-id ${mustBe(CLUSTER_ID_WORDS, id)}`);
  const read = await readSecretFile(file);
  if (!read.ok) {
    tell(`${file}: ${read.fault}`);
    return UNREADABLE;
  }
  process.stdout.write(`${Buffer.from(clusterKey(read.secrets[0], id)).toString('base64url')}\n`);
  return 0;
}
