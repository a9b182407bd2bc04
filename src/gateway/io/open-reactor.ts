// Opens the adapter of the I/O port that a worker uses, and checks whether the epoll adapter works here.

import type { ThreadControl } from '../shared/thread-control.ts';
import type { Libc } from './libc.ts';
import type { Reactor } from './reactor.ts';
import type { ResetOnClose, SetLinger } from './set-linger.ts';

export type EngineName = 'epoll' | 'net';

export interface ReactorOptions {
  readonly capacity: number;
  readonly share: boolean;
  readonly arch: string;
  readonly control: ThreadControl;
  /** It gets its connections from an epoll reactor. */
  readonly isGiven?: boolean;
}

/** Each adapter is imported only when used: the epoll adapter needs libc and koffi. */
export async function openReactor(engine: EngineName, options: ReactorOptions): Promise<Reactor> {
  if (engine === 'net') {
    const adapter = await import('./net-reactor.ts');
    const setLinger = options.isGiven ? await openSetLinger(options.control) : undefined;
    return new adapter.NetReactor({ ...options, ...(setLinger !== undefined && { setLinger }) });
  }
  return openEpollReactor(options);
}

/**
 * While koffi loads itself or a library, it cannot throw the exception that ends a terminated thread, and aborts the
 * process instead. So the control thread waits until that is over.
 */
async function loadLibcIn(control: ThreadControl): Promise<Libc> {
  if (!control.enter()) throw new Error('The thread is being ended');
  try {
    const { loadLibc } = await import('./libc.ts');
    return loadLibc();
  } finally {
    control.leave();
  }
}

async function openEpollReactor(options: ReactorOptions): Promise<Reactor> {
  const libc = await loadLibcIn(options.control);
  const adapter = await import('./epoll-reactor.ts');
  return new adapter.EpollReactor({ ...options, libc });
}

/** For the control thread, which closes what dead threads have left open. */
export async function openResetOnClose(): Promise<ResetOnClose> {
  const [{ loadLibc }, { resetOnClose }] = await Promise.all([
    import('./libc.ts'),
    import('./set-linger.ts'),
  ]);
  const libc = loadLibc();
  return descriptor => resetOnClose(libc, descriptor);
}

async function openSetLinger(control: ThreadControl): Promise<SetLinger> {
  const libc = await loadLibcIn(control);
  const { setLinger } = await import('./set-linger.ts');
  return (descriptor, isReset) => setLinger(libc, descriptor, isReset);
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
