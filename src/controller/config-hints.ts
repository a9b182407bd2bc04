// What the log says about a configuration that is served: secret files that others can read, and limits that do
// not fit the machine.

import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { openFilesWarning } from '../gateway/open-files.ts';
import type { GatewayProcess, Host } from './gateway-process.ts';
import { exposedFiles } from './named-files.ts';

export class ConfigHints {
  readonly #file: string;
  readonly #log: Logger;
  readonly #host: Host;
  readonly #process: GatewayProcess;
  /** Files that others can read, with the modes that were logged. */
  #exposed: ReadonlyMap<string, string> = new Map();

  constructor(file: string, log: Logger, host: Host, process: GatewayProcess) {
    this.#file = file;
    this.#log = log;
    this.#host = host;
    this.#process = process;
  }

  async write(config: Config): Promise<void> {
    await this.#writeExposed(config);
    this.#writeOpenFiles(config);
  }

  /** Each file once, until its mode changes. */
  async #writeExposed(config: Config): Promise<void> {
    const exposed = await exposedFiles(this.#file, config, this.#host.uid);
    for (const one of exposed) {
      if (this.#exposed.get(one.file) !== one.mode) this.#log.warn(one, 'secret file can be read by others');
    }
    this.#exposed = new Map(exposed.map(({ file, mode }) => [file, mode]));
  }

  #writeOpenFiles({ limits }: Config): void {
    const { openFiles } = this.#host;
    const why = openFilesWarning(limits.connections, openFiles);
    const connections = limits.connections ?? this.#process.room.connections;
    if (why !== undefined) this.#log.warn({ connections, openFiles, why }, 'limits.connections does not fit');
  }
}
