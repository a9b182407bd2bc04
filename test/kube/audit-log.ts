// The audit log of an API server: who wrote what, and when.

import { readFile } from 'node:fs/promises';

const write = ['create', 'update', 'patch', 'delete'];

/** Writes with what became of them, and lists of Services. */
export const auditPolicy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived', 'ResponseStarted'],
  omitManagedFields: true,
  rules: [
    {
      level: 'RequestResponse',
      verbs: write,
      resources: [
        { group: '', resources: ['services'] },
        { group: 'networking.k8s.io', resources: ['ingresses'] },
        { group: 'coordination.k8s.io', resources: ['leases'] },
      ],
    },
    { level: 'Metadata', verbs: ['list'], resources: [{ group: '', resources: ['services'] }] },
    { level: 'None' },
  ],
};

export interface AuditEvent {
  readonly verb: string;
  /** Which token was used, by its `jti`; empty for other credentials. */
  readonly token: string;
  readonly resource: string;
  readonly namespace: string;
  readonly name: string;
  readonly code: number;
  /** When the API server began with it, in a form that sorts. */
  readonly at: string;
  /** Of the object afterwards; empty after a deletion. */
  readonly resourceVersion: string;
  readonly uid: string;
}

/** All that were answered, in the order of their arrival. A line that is not complete, of a server that was killed, is left out. */
export async function auditEvents(file: string): Promise<readonly AuditEvent[]> {
  const lines = (await readFile(file, 'utf8')).split('\n').filter(line => line.endsWith('}'));
  return lines.map(line => eventOf(JSON.parse(line))).toSorted((a, b) => (a.at < b.at ? -1 : 1));
}

interface RawEvent {
  readonly verb: string;
  readonly user: { readonly extra?: Readonly<Record<string, readonly string[]>> };
  readonly objectRef: Readonly<Record<string, string | undefined>>;
  readonly responseStatus?: { readonly code?: number };
  readonly responseObject?: {
    readonly metadata?: { readonly resourceVersion?: string; readonly uid?: string };
  };
  readonly requestReceivedTimestamp: string;
}

function eventOf({
  verb,
  user,
  objectRef,
  responseStatus,
  responseObject,
  requestReceivedTimestamp,
}: RawEvent): AuditEvent {
  const [credential = ''] = user.extra?.['authentication.kubernetes.io/credential-id'] ?? [];
  const { resource = '', namespace = '', name = '' } = objectRef;
  const { resourceVersion = '', uid = '' } = responseObject?.metadata ?? {};
  const code = responseStatus?.code ?? 0;
  const token = credential.replace(/^JTI=/, '');
  return { verb, token, resource, namespace, name, code, at: requestReceivedTimestamp, resourceVersion, uid };
}

/** The `jti` of a token, as the audit log has it. */
export function tokenId(token: string): string {
  const [, claims] = token.split('.');
  return (JSON.parse(Buffer.from(claims, 'base64url').toString()) as { jti: string }).jti;
}
