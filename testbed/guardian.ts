// Ends what this process has started when this process ends, however it ends: a test runner that kills a hung test
// file with SIGKILL lets no exit handler run. The guardian is a small shell of its own session that reads process
// groups from a pipe, and kills those that are left when the pipe closes.

import { type ChildProcess, spawn } from 'node:child_process';

const SCRIPT = `
trap '' INT TERM HUP
groups=' '
while read -r verb group; do
  case $verb in
    guard) groups="$groups$group " ;;
    release) groups="\${groups%% $group *} \${groups#* $group }" ;;
  esac
done
for group in $groups; do kill -s KILL -- "-$group" 2>/dev/null; done
`;

let guardian: ChildProcess | undefined;

/** From now on the process group ends with this process. */
export function guard(group: number): void {
  tell(`guard ${group}\n`);
}

/** The group is gone. Its number may be given to others. */
export function release(group: number): void {
  tell(`release ${group}\n`);
}

function tell(line: string): void {
  guardian ??= startGuardian();
  guardian.stdin?.write(line);
}

function startGuardian(): ChildProcess {
  const shell = spawn('sh', ['-c', SCRIPT], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
    cwd: '/',
  });
  shell.unref();
  // A pipe of node is a stream of its own in the event loop, with its own reference.
  (shell.stdin as unknown as { unref(): void }).unref();
  shell.stdin?.on('error', () => {
    guardian = undefined;
  });
  return shell;
}
