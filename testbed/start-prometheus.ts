// Prometheus in a test: scrapes targets every second and evaluates a file of rules as often.

import { writeFile } from 'node:fs/promises';
import { freePort } from './free-port.ts';
import { type Program, startProgram } from './program.ts';
import { tempDir } from './temp-dir.ts';

export interface PrometheusOptions {
  /** Jobs, each with its target as HOST:PORT. */
  readonly jobs: Readonly<Record<string, string>>;
  readonly ruleFile: string;
}

export interface Prometheus extends Program {
  /** The data of its API for a path such as `rules` or `query?query=up`. Rejects with its error. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests know its shape
  ask(path: string): Promise<any>;
}

interface Answer {
  readonly status: 'success' | 'error';
  readonly error?: string;
  readonly data: unknown;
}

export async function startPrometheus({ jobs, ruleFile }: PrometheusOptions): Promise<Prometheus> {
  await using stack = new AsyncDisposableStack();
  const dir = stack.use(await tempDir());
  const port = await freePort();
  const config = {
    global: { scrape_interval: '1s', evaluation_interval: '1s' },
    rule_files: [ruleFile],
    scrape_configs: Object.entries(jobs).map(([job, target]) => ({
      job_name: job,
      static_configs: [{ targets: [target] }],
    })),
  };
  // JSON is YAML.
  await writeFile(dir.file('prometheus.yml'), JSON.stringify(config));
  const url = `http://127.0.0.1:${port}`;
  const program = stack.use(
    await startProgram({
      command: 'prometheus',
      args: [
        `--config.file=${dir.file('prometheus.yml')}`,
        `--storage.tsdb.path=${dir.file('data')}`,
        `--web.listen-address=127.0.0.1:${port}`,
      ],
      ready: {
        probe: () =>
          fetch(`${url}/-/ready`).then(
            response => response.ok,
            () => false,
          ),
      },
    }),
  );
  const owned = stack.move();
  return {
    ...program,
    async ask(path) {
      const answer = (await (await fetch(`${url}/api/v1/${path}`)).json()) as Answer;
      if (answer.status !== 'success') throw new Error(`${path}: ${answer.error}`);
      return answer.data;
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}
