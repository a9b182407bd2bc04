// Traefik in a test, passing TLS through by SNI: `await using router = await startTraefik({ routes: { 'a.test': ... } })`.

import { writeFile } from 'node:fs/promises';
import { freePort } from './free-port.ts';
import { goBuild } from './go-build.ts';
import type { Netns } from './netns.ts';
import { type Program, startProgram } from './program.ts';
import { run } from './run.ts';
import { tempDir } from './temp-dir.ts';

export interface TraefikOptions {
  /** Host name to `address:port`. TLS is passed through. */
  readonly routes: Readonly<Record<string, string>>;
  /** The whole dynamic configuration instead, and how many TCP routers it has. */
  readonly dynamic?: { readonly text: string; readonly routers: number };
  /** The entry point. Default: 127.0.0.1 and any free port. */
  readonly bindAddress?: string;
  readonly port?: number;
  readonly netns?: Netns;
  /** Further static configuration, such as `--log.level=DEBUG`. */
  readonly flags?: readonly string[];
}

export interface Traefik extends Program {
  readonly port: number;
  /** Replaces the routes. Traefik takes a moment to notice. */
  write(routes: TraefikOptions['routes']): Promise<void>;
}

/** Starts Traefik, and resolves when it has all routes. */
export async function startTraefik(options: TraefikOptions): Promise<Traefik> {
  const { routes, bindAddress = '127.0.0.1', netns, flags = [] } = options;
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const file = dir.file('routes.yaml');
  const write = (routes: TraefikOptions['routes']) => writeFile(file, JSON.stringify(dynamic(routes)));
  const { dynamic: whole } = options;
  if (whole === undefined) await write(routes);
  else await writeFile(file, whole.text);
  const count = whole?.routers ?? Object.keys(routes).length;
  const port = options.port ?? (await freePort());
  const admin = await freePort();
  const program = stack.use(
    await startProgram({
      command: await goBuild('traefik'),
      args: [
        `--entryPoints.tls.address=${bindAddress}:${port}`,
        `--entryPoints.traefik.address=127.0.0.1:${admin}`,
        '--api.insecure=true',
        `--providers.file.filename=${file}`,
        '--providers.file.watch=true',
        '--log.level=INFO',
        // No usage reports and no version checks.
        '--global.sendAnonymousUsage=false',
        '--global.checkNewVersion=false',
        ...flags,
      ],
      cwd: dir.path,
      netns,
      ready: { probe: async () => (await routersOf(admin, netns)) === count },
      stopSignal: 'SIGKILL',
    }),
  );
  const owned = stack.move();
  return { ...program, port, write, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** JSON is YAML. */
function dynamic(routes: TraefikOptions['routes']): object {
  const entries = Object.entries(routes).map(([host, address], number) => ({
    host,
    address,
    name: `r${number}`,
  }));
  if (entries.length === 0) return {};
  return {
    tcp: {
      routers: Object.fromEntries(
        entries.map(({ host, name }) => [
          name,
          {
            entryPoints: ['tls'],
            rule: `HostSNI(\`${host}\`)`,
            service: name,
            tls: { passthrough: true },
          },
        ]),
      ),
      services: Object.fromEntries(
        entries.map(({ address, name }) => [name, { loadBalancer: { servers: [{ address }] } }]),
      ),
    },
  };
}

/** Number of enabled routers; -1 before it answers. */
async function routersOf(admin: number, netns: Netns | undefined): Promise<number> {
  const url = `http://127.0.0.1:${admin}/api/tcp/routers`;
  const { code, stdout } = await run('curl', ['--silent', '--fail', '--noproxy', '*', url], { netns });
  if (code !== 0) return -1;
  const routers = JSON.parse(stdout.toString()) as { status: string; provider: string }[];
  return routers.filter(({ status, provider }) => status === 'enabled' && provider === 'file').length;
}
