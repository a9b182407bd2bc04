// Go programs, built once through the cache: our own clients and servers, and programs of other projects as
// dependencies of modules whose go.mod and go.sum pin every byte (`testbed/<module>/`).

import { accessSync, constants, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { built } from './cache.ts';
import { missingPrograms } from './packages.ts';
import { run } from './run.ts';

/** Traefik takes ten minutes on two idle cores, and its modules take as long to download over a slow line. */
const BUILD_TIMEOUT_MS = 60 * 60_000;
/** One progress line for this many compiled packages. */
const PROGRESS_STEP = 200;

interface Source {
  /** The directory in testbed/. */
  readonly module: string;
  readonly package: string;
  readonly ldflags?: string;
}

// The Kubernetes build sets its version by the linker. Without it the API server reports v0.0.0-master, and kubectl
// and the client libraries cannot parse that.
const KUBERNETES_FLAGS = kubernetesFlags(readFileSync(new URL('./kube/go.mod', import.meta.url), 'utf8'));

const SOURCES = {
  'go-client': { module: 'go-client', package: '.' },
  'go-peer': { module: 'go-peer', package: '.' },
  'go-h2-connect': { module: 'go-h2-connect', package: '.' },
  etcd: { module: 'etcd', package: 'go.etcd.io/etcd/server/v3' },
  'kube-apiserver': kubernetes('kube-apiserver'),
  kubectl: kubernetes('kubectl'),
  'kube-proxy': kubernetes('kube-proxy'),
  'kube-controller-manager': kubernetes('kube-controller-manager'),
  'kube-scheduler': kubernetes('kube-scheduler'),
  'konnectivity-server': konnectivity('server'),
  'konnectivity-agent': konnectivity('agent'),
  kwok: { module: 'kwok', package: 'sigs.k8s.io/kwok/cmd/kwok' },
  coredns: { module: 'coredns', package: 'github.com/coredns/coredns' },
  traefik: { module: 'traefik', package: 'github.com/traefik/traefik/v3/cmd/traefik' },
  helm: { module: 'helm', package: 'helm.sh/helm/v4/cmd/helm' },
  'external-dns': { module: 'external-dns', package: 'sigs.k8s.io/external-dns' },
} satisfies Record<string, Source>;

export type GoProgram = keyof typeof SOURCES;

/** Ordered so that each follows the one with which it shares most packages. */
export const GO_PROGRAMS = Object.keys(SOURCES) as GoProgram[];

/** The path of a program, built if needed. `$KUBEBUILDER_ASSETS` goes first, as in controller-runtime. */
export async function goBuild(name: GoProgram): Promise<string> {
  const asset = kubebuilderAsset(name);
  if (asset !== undefined) return asset;
  const { module, package: path, ldflags: more = '' }: Source = SOURCES[name];
  const source = new URL(`./${module}/`, import.meta.url);
  const ldflags = `-s -w ${more}`.trim();
  const directory = await built(name, {
    pins: [source, path, ldflags, await go(source, ['version'])],
    async build(directory, progress) {
      progress('downloading its modules');
      const packages = (await go(source, ['list', '-deps', path])).split('\n').length - 1;
      progress('compiling');
      let compiled = 0;
      const args = ['-v', '-trimpath', '-buildvcs=false', '-mod=readonly', '-ldflags', ldflags];
      await go(source, ['build', ...args, '-o', `${directory}/${name}`, path], chunk => {
        // Go prints a line for each package that it compiles; cached ones are not printed.
        const before = compiled;
        compiled += chunk.toString().split('\n').length - 1;
        if (Math.floor(compiled / PROGRESS_STEP) > Math.floor(before / PROGRESS_STEP))
          progress(`compiled ${compiled} of at most ${packages} packages`);
      });
    },
  });
  return `${directory}/${name}`;
}

/** Where the files of a Go module are that one of our modules (`testbed/<module>/`) depends on. Downloaded if needed. */
export async function goModule(module: string, path: string): Promise<string> {
  const downloaded = await go(new URL(`./${module}/`, import.meta.url), ['mod', 'download', '-json', path]);
  return (JSON.parse(downloaded) as { Dir: string }).Dir;
}

/** For the `skip` option of a test: false if these programs can be built or found, else the reason. */
export function missingGoPrograms(...names: readonly GoProgram[]): string | false {
  return names.every(name => kubebuilderAsset(name) !== undefined) ? false : missingPrograms('go');
}

/** One of the programs that envtest installs, if it is there. */
export function kubebuilderAsset(
  name: string,
  assets: string | undefined = process.env.KUBEBUILDER_ASSETS,
): string | undefined {
  if (!assets || !['etcd', 'kube-apiserver', 'kubectl'].includes(name)) return undefined;
  const path = join(assets, name);
  try {
    accessSync(path, constants.X_OK);
    return path;
  } catch {
    return undefined;
  }
}

async function go(module: URL, args: readonly string[], onStderr?: (chunk: Buffer) => void): Promise<string> {
  const { code, stdout, stderr } = await run('go', args, {
    cwd: fileURLToPath(module),
    env: { CGO_ENABLED: '0', GOWORK: 'off' },
    timeoutMs: BUILD_TIMEOUT_MS,
    onOutput: (chunk, from) => void (from === 'stderr' && onStderr?.(chunk)),
  });
  if (code !== 0) throw new Error(`go ${args[0]} ended with code ${code}\n${stderr}`);
  return stdout.toString();
}

function kubernetes(command: string): Source {
  return { module: 'kube', package: `k8s.io/kubernetes/cmd/${command}`, ldflags: KUBERNETES_FLAGS };
}

function kubernetesFlags(goMod: string): string {
  const [, version, major, minor] = /\bk8s\.io\/kubernetes (v(\d+)\.(\d+)\S*)/.exec(goMod) ?? [];
  const values = { gitVersion: version, gitMajor: major, gitMinor: minor };
  return Object.entries(values)
    .map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)
    .join(' ');
}

function konnectivity(command: string): Source {
  return { module: 'konnectivity', package: `sigs.k8s.io/apiserver-network-proxy/cmd/${command}` };
}
