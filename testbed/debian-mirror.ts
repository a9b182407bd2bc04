// The Debian archive that the machine uses, for debootstrap.

import { run } from './run.ts';

const DEFAULT_MIRROR = 'http://deb.debian.org/debian';

export async function debianMirror(): Promise<string> {
  const { stdout } = await run('apt-get', ['indextargets', '--format', '$(REPO_URI)']);
  return /^\S+\/debian\/?$/m.exec(stdout.toString())?.[0] ?? DEFAULT_MIRROR;
}
