// Opens the adapter of the I/O port that a worker uses, and checks whether the epoll adapter works here.

import type { ThreadControl } from '../shared/thread-control.ts';
import type { Reactor } from './reactor.ts';

export type EngineName = 'epoll' | 'net';

export interface ReactorOptions {
  readonly capacity: number;
  readonly share: boolean;
  readonly arch: string;
  readonly control: ThreadControl;
}

/** Each adapter is imported only when used: the epoll adapter needs libc and koffi. */
export async function openReactor(engine: EngineName, options: ReactorOptions): Promise<Reactor> {
  if (engine === 'net') {
    const adapter = await import('./net-reactor.ts');
    return new adapter.NetReactor(options);
  }
  return openEpollReactor(options);
}

/**
 * While koffi loads itself or a library, it cannot throw the exception that ends a terminated thread, and aborts the
 * process instead. So the control thread waits until that is over.
 */
async function openEpollReactor(options: ReactorOptions): Promise<Reactor> {
  if (!options.control.enter()) throw new Error('The thread is being ended');
  try {
    const [adapter, { loadLibc }] = await Promise.all([import('./epoll-reactor.ts'), import('./libc.ts')]);
    return new adapter.EpollReactor({ ...options, libc: loadLibc() });
  } finally {
    options.control.leave();
  }
}

/** Why the epoll adapter cannot be used here, or undefined. */
export async function whyNoEpoll(platform: string, arch: string): Promise<string | undefined> {
  if (platform !== 'linux') return `it requires Linux, but this is ${platform}`;
  if (arch !== 'x64' && arch !== 'arm64') return `it supports x64 and arm64, but this is ${arch}`;
  try {
    const [{ loadLibc }, { selfTest }] = await Promise.all([import('./libc.ts'), import('./self-test.ts')]);
    const fault = selfTest(loadLibc(), arch);
    return fault === undefined ? undefined : `its self-test failed: ${fault}`;
  } catch (error) {
    return `libc cannot be called: ${error instanceof Error ? error.message : String(error)}`;
  }
}
