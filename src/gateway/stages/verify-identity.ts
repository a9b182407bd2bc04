// Part of identify: has the agent proven the cluster id that it names? With `identity` configured, a signature that is
// present must be valid, and where it is required it must be present. Only agents are checked, and only for ids that
// exist, so that nobody else can make us compute. Without `identity`, signatures are ignored.
//
// The nonce of a valid signature is spent last: only a connection that its cluster admits takes room in the table of
// nonces. A nonce that is already spent is refused first, so that a replay uses none of the cluster's limits either.

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

/** The largest value that fits a record. */
const MOST_SECONDS = 2 ** 31 - 1;

/**
 * Checks the signature in an agent's header. A fault stays in the row until refusedId() reads it, when the protocol for
 * the refusal is known. Returns only what cannot wait: two signatures, or one without an id to prove.
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

/** Why the id in an agent's header is refused, by the current table. Also undefined when there is no id. */
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

/** The same for a CONNECT: whichever of the cluster's names it uses, it must prove the cluster's id. */
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

/** Spends the nonce of a connection that has passed every other check of that cluster. */
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
  // Copied, since its buffer may be reused before the nonce is spent.
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
