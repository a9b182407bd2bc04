// The certificate behind a route: names, validity, authority, and the protocol that came with it.

import type { Cluster, Route } from '../cluster/cluster.ts';
import type { Report } from './check.ts';
import type { ServedCertificate, Shaken } from './network.ts';

/** Pods verify the API server under this name, whatever name the gateway knows it by. */
const NAME_INSIDE = 'kubernetes.default.svc';
const DAY_MS = 86_400_000;
/** Operators that renew certificates do so earlier. */
const WARN_DAYS = 14;
const SHOWN = 4;

export interface CertificateQuestion {
  readonly cluster: Cluster;
  readonly route: Route;
  /** All names that clients may use. */
  readonly names: readonly string[];
  /** At least one. */
  readonly answered: readonly ({ readonly host: string } & Extract<Shaken, { ok: true }>)[];
  /** Of an API server: what its pods verify. */
  readonly inside: { readonly hasId: boolean; readonly serviceIps: readonly string[] } | undefined;
}

export function judgeCertificate(question: CertificateQuestion, now: number, report: Report): void {
  const { route, names, answered, inside } = question;
  const before = report.checks.length;
  const [first] = answered;
  const certificateOf = (name: string) => (answered.find(({ host }) => host === name) ?? first).certificate;
  judgeNames(
    question,
    names.filter(name => !certificateOf(name).covers(name)),
    report,
  );
  if (inside !== undefined) judgeInside(question, first.certificate, report);
  for (const certificate of new Map(
    answered.map(one => [one.certificate.fingerprint, one.certificate]),
  ).values()) {
    judgeDates(question, certificate, now, report);
  }
  const untrusted = answered.find(one => one.untrusted !== undefined);
  if (untrusted !== undefined && report.checks.length === before) {
    const text = `The certificate of ${untrusted.host} is not from the authority in the kubeconfig: ${untrusted.untrusted}`;
    const fix =
      'The kubeconfig is of another cluster or outdated, or the host leads to another cluster: fetch it again';
    report.fail('tls', 'CertificateUntrusted', text, fix);
  }
  const { alpn, host } = first;
  if (inside !== undefined && alpn !== 'h2') {
    const text = `${host} does not negotiate HTTP/2 (ALPN h2): ${alpn === undefined ? 'no protocol' : alpn}`;
    const fix =
      'Does something between the gateway and the API server open TLS, or is HTTP/2 turned off there?';
    report.warn('tls', 'AlpnMissing', text, fix);
  }
  if (report.checks.length > before) return;
  const until = new Date(first.certificate.notAfter).toISOString().slice(0, 10);
  const what = `${route.kind}: ${host}${names.length === 1 ? '' : ` and ${names.length - 1} more`}`;
  report.ok('tls', `${what}, certificate until ${until}${alpn === undefined ? '' : `, ${alpn}`}`);
}

function judgeNames(
  { cluster, route }: CertificateQuestion,
  missing: readonly string[],
  report: Report,
): void {
  if (missing.length === 0) return;
  const shown = missing
    .slice(0, SHOWN)
    .map(name => `'${name}'`)
    .join(', ');
  const more = missing.length > SHOWN ? ` and ${missing.length - SHOWN} more` : '';
  const text = `The certificate of ${route.kind} is not for ${shown}${more}, so clients will not trust it`;
  const fix = issueAgain(cluster, route, missing);
  // Of applications, clients may know better: many clusters have a certificate that nobody replaced yet.
  if (route.kind === 'api' || route.kind === 'konnectivity') {
    report.fail('tls', 'CertificateSanMissing', text, fix);
  } else report.warn('tls', 'CertificateSanMissing', text, fix);
}

function judgeInside(
  { cluster, route, inside }: CertificateQuestion,
  certificate: ServedCertificate,
  report: Report,
): void {
  const missing = [NAME_INSIDE, ...(inside?.serviceIps ?? [])].filter(name => !certificate.covers(name));
  if (missing.length === 0) return;
  const shown = missing.map(name => `'${name}'`).join(' and ');
  const text = `The certificate of api is not for ${shown}, which pods of the cluster verify`;
  const fix = issueAgain(cluster, route, missing);
  // Without an id no pod comes this way.
  if (inside?.hasId === true) report.fail('tls', 'CertificateSanMissing', text, fix);
  else report.warn('tls', 'CertificateSanMissing', text, fix);
}

function judgeDates(
  { cluster, route, answered }: CertificateQuestion,
  { notBefore, notAfter }: ServedCertificate,
  now: number,
  report: Report,
): void {
  const fix = issueAgain(cluster, route, []);
  const subject = `The certificate of ${route.kind} (${answered[0].host})`;
  if (notBefore > now) {
    const text = `${subject} is valid only from ${new Date(notBefore).toISOString()} on`;
    report.fail(
      'tls',
      'CertificateNotYetValid',
      text,
      'Compare the clocks: run NTP here and where it was issued',
    );
  } else if (notAfter <= now) {
    report.fail(
      'tls',
      'CertificateExpired',
      `${subject} expired on ${new Date(notAfter).toISOString()}`,
      fix,
    );
  } else if (notAfter - now <= WARN_DAYS * DAY_MS) {
    const days = Math.floor((notAfter - now) / DAY_MS);
    const left = days === 0 ? 'less than a day' : days === 1 ? '1 day' : `${days} days`;
    const text = `${subject} expires in ${left}, on ${new Date(notAfter).toISOString().slice(0, 10)}`;
    report.warn('tls', 'CertificateExpires', text, fix);
  }
}

function issueAgain({ controlPlane }: Cluster, { kind }: Route, missing: readonly string[]): string {
  const names = missing.length === 0 ? '' : ` with ${missing.slice(0, SHOWN).join(', ')}`;
  if (kind !== 'api' && kind !== 'konnectivity') return `Issue the certificate of the ingress again${names}`;
  const { namespace, secret } = controlPlane?.servingCertificate ?? {};
  if (namespace !== undefined && secret !== undefined) {
    const isListed = missing.length > 0 && controlPlane?.certSANs !== undefined;
    const first = isListed ? 'Add them to spec.networkProfile.certSANs, then ' : '';
    return `${first}${first === '' ? 'Let' : 'let'} its operator issue it again: kubectl delete secret --namespace ${namespace} ${secret}`;
  }
  return `Issue the certificate of the API server again${names}: with kubeadm, certSANs of the ClusterConfiguration and kubeadm init phase certs apiserver`;
}
