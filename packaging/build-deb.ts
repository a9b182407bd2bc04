// A Debian package made with dpkg-deb alone. The libraries that Node needs are Debian's own, by dependency.

import { chmod, cp, mkdir, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { type Arch, DEBIAN_ARCH } from './arch.ts';
import { gzip } from './archive.ts';
import { buildFolder } from './build-folder.ts';
import { LIBRARIES } from './libraries.ts';
import { manifest, ROOT } from './source-tree.ts';
import { tool } from './tool.ts';

export interface DebOptions {
  readonly arch: Arch;
  /** Seconds since 1970. */
  readonly date: number;
  /** Default: that of package.json. */
  readonly version?: string;
  /** For dpkg-deb. Default: xz. */
  readonly compression?: 'xz' | 'none';
}

const MATERIAL = join(ROOT, 'packaging/debian');
const UNITS = ['causeway.service', 'causeway-agent@.service'];
const SCRIPTS = ['postinst', 'prerm', 'postrm'];
const CONFIG = 'etc/causeway/causeway.yaml';
const DOC = 'usr/share/doc/causeway';
const MAINTAINER = 'Causeway maintainers <maintainers@causeway.dev>';

const COPYRIGHT = `Copyright: the authors of Causeway

Causeway is under the Apache License, Version 2.0, which is in
/usr/share/common-licenses/Apache-2.0.

It brings Node and libraries along. Their licenses are beside this file, in
licenses-*.txt.
`;
const LICENSES: Readonly<Record<string, string>> = {
  'lib/LICENSES.txt': 'licenses-libraries.txt',
  'node_modules/koffi/LICENSE.txt': 'licenses-koffi.txt',
  'runtime/LICENSE-node.txt': 'licenses-node.txt',
};

/** Fills the folder `tree` with the content of the package and writes the package to `file`. */
export async function buildDeb(tree: string, file: string, options: DebOptions): Promise<void> {
  const { arch, date, version = manifest.version, compression = 'xz' } = options;
  await rm(tree, { recursive: true, force: true });
  const program = join(tree, 'usr/lib/causeway');
  await buildFolder(program, arch);
  for (const group of Object.keys(LIBRARIES)) await rm(join(program, 'runtime', group), { recursive: true });
  await rm(join(program, 'runtime/LICENSE-libraries.txt'));
  await documents(tree, program, { version, date });
  await units(tree, program);
  await mkdir(join(tree, 'usr/bin'));
  await symlink('../lib/causeway/bin/causeway', join(tree, 'usr/bin/causeway'));
  await place(join(MATERIAL, 'causeway.yaml'), join(tree, CONFIG));

  await tool('chmod', ['--recursive', 'u=rwX,go=rX', tree]);
  await mkdir(join(tree, 'DEBIAN'));
  for (const name of SCRIPTS) {
    await cp(join(MATERIAL, name), join(tree, 'DEBIAN', name));
    await chmod(join(tree, 'DEBIAN', name), 0o755);
  }
  await writeFile(join(tree, 'DEBIAN/conffiles'), `/${CONFIG}\n`);
  await writeFile(join(tree, 'DEBIAN/md5sums'), await md5sums(tree));
  await writeFile(join(tree, 'DEBIAN/control'), control({ arch, version, size: await installedSize(tree) }));
  // dpkg-deb takes the time of the archive, and the newest of its files, from this.
  const env = { SOURCE_DATE_EPOCH: String(date) };
  await tool('dpkg-deb', ['--root-owner-group', `-Z${compression}`, '--build', tree, file], { env });
}

interface ControlFacts {
  readonly arch: Arch;
  readonly version: string;
  /** In KiB. */
  readonly size: number;
}

/** deb-control(5). Node needs glibc 2.28 and the libstdc++ of GCC 5; `ip` is for the agent's `--local-address`. */
function control({ arch, version, size }: ControlFacts): string {
  const fields = {
    Package: manifest.name,
    Version: version,
    Architecture: DEBIAN_ARCH[arch],
    Maintainer: MAINTAINER,
    'Installed-Size': size,
    Depends: 'adduser, libatomic1, libc6 (>= 2.28), libgcc-s1, libstdc++6 (>= 6)',
    Recommends: 'ca-certificates, iproute2',
    Section: 'net',
    Priority: 'optional',
    Description: `one IP address, every Kubernetes cluster
 A layer-4 gateway that reads the server name of a TLS connection, or the
 cluster id that an agent puts in front of it, and passes the connection to
 the right cluster without opening the TLS. API servers, konnectivity,
 applications and the pods that dial kubernetes.default.svc can share one port.`,
  };
  return Object.entries(fields)
    .map(([name, value]) => `${name}: ${value}\n`)
    .join('');
}

async function documents(tree: string, program: string, { version, date }: Release): Promise<void> {
  const doc = join(tree, DOC);
  await mkdir(doc, { recursive: true });
  for (const name of ['docs', 'examples', 'README.md', 'CHANGELOG.md'])
    await rename(join(program, name), join(doc, name));
  await writeFile(join(doc, 'copyright'), COPYRIGHT);
  await moveLicenses(program, doc);
  await writeFile(join(doc, 'changelog'), changelog({ version, date }));
  await gzip(join(doc, 'changelog'));
  await place(join(MATERIAL, 'lintian-overrides'), join(tree, 'usr/share/lintian/overrides/causeway'));
}

interface Release {
  readonly version: string;
  readonly date: number;
}

/** deb-changelog(5). */
function changelog({ version, date }: Release): string {
  const time = new Date(date * 1000).toUTCString().replace('GMT', '+0000');
  const entry = `  * Release ${version}: see CHANGELOG.md beside this file.`;
  return `${manifest.name} (${version}) unstable; urgency=medium\n\n${entry}\n\n -- ${MAINTAINER}  ${time}\n`;
}

/** The texts move to where Debian has them. */
async function moveLicenses(program: string, doc: string): Promise<void> {
  await rm(join(program, 'LICENSE'));
  for (const [name, target] of Object.entries(LICENSES)) await rename(join(program, name), join(doc, target));
}

async function units(tree: string, program: string): Promise<void> {
  const folder = join(tree, 'usr/lib/systemd/system');
  for (const name of UNITS) {
    await place(join(program, 'systemd', name), join(folder, name));
    await rm(join(program, 'systemd', name));
  }
}

async function place(from: string, to: string): Promise<void> {
  await mkdir(dirname(to), { recursive: true });
  await cp(from, to);
}

/** Of every file but conffiles, for `dpkg --verify`. */
async function md5sums(tree: string): Promise<string> {
  const found = await tool('find', ['usr', '-type', 'f', '-print0'], { cwd: tree });
  const names = found.split('\0').filter(Boolean).toSorted();
  return tool('md5sum', ['--', ...names], { cwd: tree });
}

/** deb-substvars(5): each file in whole KiB, and one for each folder. */
async function installedSize(tree: string): Promise<number> {
  const listed = await tool('find', ['usr', 'etc', '-printf', '%y %s\\n'], { cwd: tree });
  const sizes = [...listed.matchAll(/^(\w) (\d+)$/gm)].map(([, kind, bytes]) =>
    kind === 'f' ? Math.ceil(Number(bytes) / 1024) : 1,
  );
  return sizes.reduce((sum, size) => sum + size, 0);
}
