// What the container image says of itself (OCI image configuration). The Containerfile says the same; a test compares.

import { PROGRAM, STATE, USER_ID } from './build-root.ts';

const SECOND = 1_000_000_000;

export interface ImageFacts {
  readonly version: string;
  readonly description: string;
  readonly license: string;
}

/** The member `config` of the configuration. `Healthcheck` is Docker's addition, which other builders write as well. */
export function imageConfig({ version, description, license }: ImageFacts) {
  return {
    User: `${USER_ID}:${USER_ID}`,
    ExposedPorts: { '6443/tcp': {}, '9440/tcp': {} },
    Env: ['PATH=/usr/bin', `HOME=/${STATE}`],
    Entrypoint: ['causeway'],
    Cmd: ['run'],
    /** Commands read ./causeway.yaml. */
    WorkingDir: '/etc/causeway',
    StopSignal: 'SIGTERM',
    Labels: {
      'org.opencontainers.image.title': 'causeway',
      'org.opencontainers.image.description': description,
      'org.opencontainers.image.licenses': license,
      'org.opencontainers.image.version': version,
    },
    Healthcheck: {
      Test: ['CMD', 'causeway', 'status'],
      Interval: 30 * SECOND,
      Timeout: 10 * SECOND,
      StartPeriod: 10 * SECOND,
      Retries: 3,
    },
  };
}

/** The folder of the layer that changes only with Node; the program above it is what an upgrade downloads. */
export const RUNTIME = `${PROGRAM}/runtime`;
