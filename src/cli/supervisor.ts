// The supervisor that started this process, if it wants to know the process's state: sd_notify(3), which systemd and
// others understand.

export class Supervisor {
  /** Every call does nothing. */
  static readonly none = new Supervisor(() => {});

  #send: (state: string) => void;
  #watchdog: NodeJS.Timeout | undefined;

  private constructor(send: (state: string) => void) {
    this.#send = send;
  }

  static async find(environment: NodeJS.ProcessEnv): Promise<Supervisor> {
    const path = environment['NOTIFY_SOCKET'];
    if (path === undefined || !/^[/@]./.test(path)) return Supervisor.none;
    try {
      return new Supervisor(await datagrams(path));
    } catch {
      // libc cannot be called on this platform, and no such supervisor runs on it.
      return Supervisor.none;
    }
  }

  /** This process is the one to supervise from now on. */
  becomeMain(pid: number): void {
    this.#send(`MAINPID=${pid}`);
  }

  /** From now on it is told that this process lives, if it wants to know. */
  ready(pid: number, environment: NodeJS.ProcessEnv): void {
    this.#send('READY=1');
    const everyUs = Number(environment['WATCHDOG_USEC'] ?? 0);
    const isMeant = (environment['WATCHDOG_PID'] ?? `${pid}`) === `${pid}`;
    if (!(everyUs > 0) || !isMeant) return;
    this.#watchdog = setInterval(() => this.#send('WATCHDOG=1'), everyUs / 2000).unref();
  }

  /** `done` settles when the new configuration is served or refused. */
  reloading(done: Promise<unknown>): void {
    this.#send(`RELOADING=1\nMONOTONIC_USEC=${process.hrtime.bigint() / 1000n}`);
    done.finally(() => this.#send('READY=1')).catch(() => {});
  }

  stopping(): void {
    this.#send('STOPPING=1');
  }

  /** Another process is the main one now: this one says nothing more. */
  leave(): void {
    clearInterval(this.#watchdog);
    this.#send = () => {};
  }
}

/** Sends one datagram for each state, and forgets those that cannot be sent. */
async function datagrams(path: string): Promise<(state: string) => void> {
  const { AF_UNIX, loadLibc, MSG_NOSIGNAL, SOCK_CLOEXEC, SOCK_DGRAM, SOCK_NONBLOCK } = await import(
    '../gateway/io/libc.ts'
  );
  const libc = loadLibc();
  const address = Buffer.alloc(2 + Buffer.byteLength(path));
  address.writeUInt16LE(AF_UNIX, 0);
  // A leading @ stands for the zero byte of an abstract address.
  address.write(path.startsWith('@') ? `\0${path.slice(1)}` : path, 2);
  const descriptor = libc.socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (descriptor < 0 || libc.connect(descriptor, address, address.length) < 0)
    throw new Error(`Cannot connect to ${path}: errno ${libc.errno()}`);
  return state => {
    const bytes = Buffer.from(state);
    libc.send(descriptor, bytes, bytes.length, MSG_NOSIGNAL);
  };
}
