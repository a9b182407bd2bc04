// The architectures that packages are made for, and what others call them.

export type Arch = 'x64' | 'arm64';

export const HOST_ARCH = process.arch as Arch;
export const DEBIAN_ARCH: Readonly<Record<Arch, string>> = { x64: 'amd64', arm64: 'arm64' };
export const TRIPLET: Readonly<Record<Arch, string>> = {
  x64: 'x86_64-linux-gnu',
  arm64: 'aarch64-linux-gnu',
};

/** From `--arch`; this machine's without. */
export function parseArch(text: string | undefined): Arch {
  if (text === undefined) text = process.arch;
  if (text === 'x64' || text === 'arm64') return text;
  throw new Error(`--arch must be x64 or arm64: current value is ${text}`);
}
