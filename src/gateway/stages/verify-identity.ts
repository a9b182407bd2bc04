// Part of identify: has the agent proven the cluster id that it names? Where the file has `identity`, a signature
// that is there must be right, and where it is required it must be there. Asked only of those in `agents`, and only
// for ids that exist, so that nobody else can make us compute. Without `identity` signatures are not looked at.
//
// A signature that is right is spent last: only a connection that its cluster admits takes of the room in which nonces
// are remembered. One that was spent before is refused first, so that whoever repeats it takes none of the cluster's
// limits either.

import type { HttpHead } from '../../wire/http-head.ts';
import type { Parsed } from '../../wire/parsed.ts';
import type { Endpoint, ProxyHeader } from '../../wire/proxy-protocol.ts';
import {
  parseSignature,
  parseSignatureText,
  SIGNATURE_HEADER,
  SIGNATURE_TLV,
  type Signature,
} from '../../wire/signature.ts';
import { PROVEN, TUNNELLED } from '../shared/rows.ts';
import type { TableCluster } from '../table/table.ts';
import type { DataPath } from './data-path.ts';
import { type SignatureFault, signatureFaultIndex } from './signature-fault.ts';

/** Seconds that a record has room for. */
const MOST_SECONDS = 2 ** 31 - 1;

/**
 * Looks at the signature in an agent's header. A fault is kept in the row until refusedId() is asked, by when it is
 * known in which protocol to say so. The answer is what cannot wait: two signatures, or one that has no id to prove.
 */
export function verifyHeader(
  path: DataPath,
  client: number,
  header: ProxyHeader,
): 'bad-proxy-header' | undefined {
  if (path.settings.secrets === undefined) return undefined;
  const signatures = header.tlvs.filter(tlv => tlv.type === SIGNATURE_TLV);
  if (signatures.length === 0) return undefined;
  const id = path.rows.clusterId[client];
  if (signatures.length > 1 || id === undefined) return 'bad-proxy-header';
  if (path.table.ids.has(id)) verify(path, client, id, header.source, parseSignature(signatures[0].value));
  return undefined;
}

/** Why the id in an agent's header is refused, by the table as it is now. Undefined also where there is none. */
export function refusedId(path: DataPath, client: number): 'unknown-cluster' | 'bad-signature' | undefined {
  const { rows, table } = path;
  const id = rows.clusterId[client];
  const isTunnelled = (rows.flags[client] & TUNNELLED) !== 0;
  if (id === undefined) return isTunnelled ? unproven(path, client, 'missing') : undefined;
  const cluster = table.ids.get(id);
  if (cluster === undefined) return 'unknown-cluster';
  if (rows.detail[client] !== 0) return 'bad-signature';
  if ((!cluster.identityRequired && !isTunnelled) || (rows.flags[client] & PROVEN) !== 0) return undefined;
  return unproven(path, client, 'missing');
}

/** The same for a CONNECT, by whichever of the cluster's names: what it must prove is the cluster's id. */
export function verifyConnect(
  path: DataPath,
  client: number,
  { id, identityRequired }: TableCluster,
  head: HttpHead,
): 'bad-signature' | 'bad-request' | undefined {
  const { rows, settings } = path;
  const texts =
    settings.secrets === undefined ? [] : head.headers.filter(([name]) => name === SIGNATURE_HEADER);
  if (texts.length > 1) return 'bad-request';
  const mustProve = texts.length > 0 || identityRequired;
  if (mustProve || id?.toLowerCase() === rows.host[client]) rows.clusterId[client] = id;
  if (!mustProve) return undefined;
  if (texts.length === 0) return unproven(path, client, 'missing');
  // A cluster without an id has no key.
  if (id === undefined) return unproven(path, client, 'wrong');
  return verify(path, client, id, undefined, parseSignatureText(texts[0][1]));
}

/** Uses the nonce of a connection that everything else has admitted to that cluster. */
export function spendSignature(
  path: DataPath,
  client: number,
  cluster: TableCluster,
): 'bad-signature' | undefined {
  const proof = path.rows.proof[client];
  if (proof === undefined) return undefined;
  path.rows.proof[client] = undefined;
  const fault = path.identity.use(proof, cluster.slot, path.table.ids.size);
  return fault === undefined ? undefined : unproven(path, client, fault.fault, fault.seconds);
}

function verify(
  path: DataPath,
  client: number,
  id: string,
  source: Endpoint | undefined,
  signature: Parsed<Signature>,
): 'bad-signature' | undefined {
  const fault = path.identity.verify(path.settings.secrets ?? [], { id, source }, signature);
  if (fault !== undefined) return unproven(path, client, fault.fault, fault.seconds);
  path.rows.flags[client] |= PROVEN;
  // The bytes it was read from may be another's by the time it is used.
  if (signature.kind === 'found')
    path.rows.proof[client] = {
      timeMs: signature.value.timeMs,
      nonce: Uint8Array.from(signature.value.nonce),
    };
  return undefined;
}

function unproven(path: DataPath, client: number, fault: SignatureFault, seconds = 0): 'bad-signature' {
  path.rows.detail[client] = signatureFaultIndex[fault];
  path.rows.detailSeconds[client] = Math.min(seconds, MOST_SECONDS);
  return 'bad-signature';
}
