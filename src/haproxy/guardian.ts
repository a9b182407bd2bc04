// HAProxy does not outlive us, however we end: a small shell reads process groups from a pipe, and kills those that are
// left when the pipe closes. Node cannot ask the kernel for that (PR_SET_PDEATHSIG), and SIGKILL leaves us no time.

import { type ChildProcess, spawn } from 'node:child_process';

const SCRIPT = `
trap '' INT TERM HUP
groups=' '
folder=$0
while read -r verb group; do
  case $verb in
    guard) groups="$groups$group " ;;
    remove) folder=$group ;;
    release)
      kill -s KILL -- "-$group" 2>/dev/null
      groups="\${groups%% $group *} \${groups#* $group }"
      ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
rm -rf -- "$folder"
`;

export class Guardian implements Disposable {
  readonly #shell: ChildProcess;

  /** `folder` is removed too. */
  constructor(folder: string) {
    this.#shell = spawn('sh', ['-c', SCRIPT, folder], {
      detached: true,
      stdio: ['pipe', 'ignore', 'ignore'],
      cwd: '/',
    });
    this.#shell.unref();
    // A machine without a shell has no guardian: then a SIGKILL of ours leaves HAProxy to its owner.
    this.#shell.on('error', () => {});
    this.#shell.stdin?.on('error', () => {});
    (this.#shell.stdin as unknown as { unref(): void }).unref();
  }

  guard(group: number): void {
    this.#shell.stdin?.write(`guard ${group}\n`);
  }

  /** Its leader has ended: a worker that hangs, and so does not notice, is killed. */
  release(group: number): void {
    this.#shell.stdin?.write(`release ${group}\n`);
  }

  /** That folder is removed instead of the one before. */
  remove(folder: string): void {
    this.#shell.stdin?.write(`remove ${folder}\n`);
  }

  [Symbol.dispose](): void {
    this.#shell.stdin?.end();
  }
}
