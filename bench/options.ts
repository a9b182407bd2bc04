// The command line of `npm run bench`.

import { parseArgs } from 'node:util';

export interface Options {
  readonly help: boolean;
  readonly scenarios: readonly string[];
  readonly peers: readonly string[];
  readonly rounds: number;
  /** Duration of each measurement. */
  readonly seconds: number;
  readonly engine: string;
  readonly out: string;
  /** Whether to write the results to docs/performance.md. */
  readonly docs: boolean;
}

export const usage = `npm run bench -- [flags]

  --scenario a,c     which (default all)
                       a new connections      b bulk           c small messages   d idle tunnels
                       e many hosts           f add a host     g one bulk tunnel against pings
                       h 1 and 2 workers      i HTTP requests  j footprint
                       k apps of a user cluster                 l DNS queries    m a large file
  --peer a,b         against whom: causeway, haproxy, haproxy-256k, nginx, node-http, direct
                     (default all)
  --rounds 5         how often each is measured; the median counts
  --duration 1500ms  of each measurement
  --engine auto      of causeway: auto, epoll, net
  --out DIRECTORY    for results.json and results.svg (default bench/results)
  --docs             writes the results into docs/performance.md too`;

/** An error on the command line. */
export class OptionError extends Error {}

export function readOptions(args: readonly string[], known: Known): Options {
  const { values } = parse(args);
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1)
    throw new OptionError(`--rounds must be a number from 1 on: current value is '${values.rounds}'`);
  const seconds = parseSeconds(values.duration);
  if (seconds === undefined)
    throw new OptionError(
      `--duration must be a time such as 2s or 500ms: current value is '${values.duration}'`,
    );
  return {
    help: values.help,
    scenarios: choose('--scenario', values.scenario, known.scenarios),
    peers: choose('--peer', values.peer, known.peers),
    rounds,
    seconds,
    engine: values.engine,
    out: values.out,
    docs: values.docs,
  };
}

/** The command that repeats the measurement, without the output flags. */
export function repeatCommand(args: readonly string[]): string {
  const kept = args.filter((arg, i) => !/^--(docs|out)(=|$)/.test(arg) && args[i - 1] !== '--out');
  return ['npm run bench', ...(kept.length > 0 ? ['--', ...kept] : [])].join(' ');
}

interface Known {
  readonly scenarios: readonly string[];
  readonly peers: readonly string[];
}

function parse(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        help: { type: 'boolean', default: false },
        scenario: { type: 'string', default: '' },
        peer: { type: 'string', default: '' },
        rounds: { type: 'string', default: '5' },
        duration: { type: 'string', default: '1500ms' },
        engine: { type: 'string', default: 'auto' },
        out: { type: 'string', default: 'bench/results' },
        docs: { type: 'boolean', default: false },
      },
    });
  } catch (error) {
    throw new OptionError((error as Error).message, { cause: error });
  }
}

/** In the fixed order, regardless of the order on the command line. */
function choose(flag: string, text: string, known: readonly string[]): readonly string[] {
  if (text === '') return known;
  const wanted = text.split(',').map(word => word.trim());
  const stranger = wanted.find(word => !known.includes(word));
  if (stranger !== undefined)
    throw new OptionError(`${flag} must be of ${known.join(', ')}: current value is '${stranger}'`);
  return known.filter(name => wanted.includes(name));
}

function parseSeconds(text: string): number | undefined {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text);
  if (match === null) return undefined;
  const ms = Number(match[1]) * { ms: 1, s: 1000, m: 60_000 }[match[2] as 'ms' | 's' | 'm'];
  return ms > 0 ? ms / 1000 : undefined;
}
