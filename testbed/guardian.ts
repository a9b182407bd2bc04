// Cleans up when this process ends, however it ends: a test runner that kills a hung test
// file with SIGKILL runs no exit handler. The guardian is a small shell in its own session that reads from a pipe
// what exists, and removes what is left when the pipe closes: process groups, network namespaces with all
// their processes, and network devices.

import { type ChildProcess, spawn } from 'node:child_process';

const SCRIPT = `
trap '' INT TERM HUP
PATH=$PATH:/usr/sbin:/sbin
things=' '
while read -r verb thing; do
  case $verb in
    guard) things="$things$thing " ;;
    release) things="\${things%% $thing *} \${things#* $thing }" ;;
  esac
done
for thing in $things; do
  name=\${thing#*:}
  case $thing in
    group:*) kill -s KILL -- "-$name" ;;
    netns:*)
      for pid in $(ip netns pids "$name"); do kill -s KILL "$pid"; done
      ip netns delete "$name"
      rm -rf "/etc/netns/$name"
      ;;
    device:*) ip link delete "$name" ;;
  esac 2>/dev/null
done
`;

/** A process group by id, or a network namespace or network device by name. */
type Guarded = `group:${number}` | `netns:${string}` | `device:${string}`;

let guardian: ChildProcess | undefined;

/** From now on it is removed with this process. */
export function guard(thing: Guarded): void {
  tell(`guard ${thing}\n`);
}

/** It is gone, and its name may be reused. */
export function release(thing: Guarded): void {
  tell(`release ${thing}\n`);
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
  // In Node a child's pipe has a reference of its own in the event loop.
  (shell.stdin as unknown as { unref(): void }).unref();
  shell.stdin?.on('error', () => {
    guardian = undefined;
  });
  return shell;
}
