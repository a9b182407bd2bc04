// The finding about a Service that has no backends, the same for all sources.

import type { Finding } from '../cluster/finding.ts';
import { quote } from '../config/reading.ts';
import type { FoundService, PortChoice } from './service-lookup.ts';

/** A finding, except whom it is about. */
export type Problem = Omit<Finding, 'cluster' | 'origin'>;

/** Ports that a finding shows. */
const MAX_SHOWN = 10;

export interface SoughtService {
  readonly namespace: string;
  readonly name: string;
  readonly port: PortChoice;
  /** What to do where it does not exist. */
  readonly missingFix?: string | undefined;
  /** How to choose another port: `Set the annotation causeway.dev/port to one of them`. */
  readonly portFix: string;
}

/** Undefined where it has backends. */
export function serviceFinding(found: FoundService, sought: SoughtService): Problem | undefined {
  const { namespace, name, port, portFix, missingFix = 'Create it, or name another one' } = sought;
  const service = `Service '${namespace}/${name}'`;
  const problem = (code: Problem['code'], text: string, fix: string): Problem => ({
    severity: 'error',
    code,
    text,
    fix,
  });
  switch (found.kind) {
    case 'no-service':
      return problem('ServiceMissing', `${service} does not exist`, missingFix);
    case 'no-port':
      return problem('PortMissing', `${service} ${describePorts(found.ports, port)}`, portFix);
    case 'unusable':
      return problem(
        'BackendForbidden',
        `${service} cannot be used: ${found.why}`,
        'Use a Service whose endpoints are Pods or nodes',
      );
    case 'found': {
      const { backends, leftOut = 0 } = found;
      if (leftOut > 0) {
        const text = `${service} has ${backends.length + leftOut} endpoints, of which the first ${backends.length} are used`;
        const fix = 'Use a Service that selects fewer Pods, or a source with via: clusterIP';
        return { severity: 'warning', code: 'TooManyEndpoints', text, fix };
      }
      return backends.length > 0
        ? undefined
        : problem(
            'NoEndpoints',
            `${service} has no endpoints for port ${found.service.port}`,
            'Check that its selector matches Pods and that they run: kubectl get endpointslices ' +
              `-n ${namespace} -l kubernetes.io/service-name=${name}`,
          );
    }
  }
}

function describePorts(ports: readonly string[], choice: PortChoice): string {
  if (ports.length === 0) return 'has no TCP port';
  const shown = ports.slice(0, MAX_SHOWN).join(', ');
  const list = ports.length > MAX_SHOWN ? `${shown} and ${ports.length - MAX_SHOWN} more` : shown;
  if (choice === undefined) return `has several TCP ports, none of them called https or api: ${list}`;
  return `has no TCP port ${typeof choice === 'number' ? choice : quote(choice)}; it has ${list}`;
}
