// `causeway dns serve`: flags, exit codes and the log; dns-service.ts does the rest.

import { readListenAddress } from '../config/address.ts';
import { readDuration } from '../config/duration.ts';
import { readHost } from '../config/host.ts';
import type { Reading } from '../config/reading.ts';
import { ConfigError } from '../controller/config-error.ts';
import { DnsService } from '../dns/server/dns-service.ts';
import { ListenError } from '../gateway/control/listen-error.ts';
import { configFile, parse, UsageError } from './command.ts';
import { dnsAddresses } from './dns-flags.ts';
import { Lifetime } from './lifetime.ts';
import { openLog } from './log.ts';
import { coloured, printError } from './terminal.ts';
import { version } from './version.ts';

const BAD_CONFIG = 1;
const CANNOT_LISTEN = 2;
const LEAST_TTL_MS = 1000;

export async function dnsServe(args: readonly string[]): Promise<number> {
  const { values, positionals } = parse(
    'dns',
    args,
    {
      config: { type: 'string', short: 'c' },
      on: { type: 'string', default: ':53' },
      address: { type: 'string', multiple: true },
      zone: { type: 'string', multiple: true },
      'name-server': { type: 'string', multiple: true },
      ttl: { type: 'string', default: '60s' },
    },
    true,
  );
  const options = {
    on: flag('on', readListenAddress(values.on)),
    onText: values.on,
    addresses: dnsAddresses(values.address),
    zones: (values.zone ?? []).map(name => flag('zone', readHost(name))),
    nameServers: (values['name-server'] ?? []).map(name => flag('name-server', readHost(name))),
    ttl: Math.floor(flag('ttl', readDuration(values.ttl, LEAST_TTL_MS)) / 1000),
    file: configFile('dns serve', values.config, positionals),
  };
  const lifetime = await Lifetime.begin();
  const log = openLog(
    { level: 'info', format: 'auto', connections: 'all' },
    process.stdout.isTTY === true,
    coloured(process.stdout),
  );
  lifetime.use(log);
  try {
    await lifetime.serve(
      () => DnsService.start({ ...options, log: log.logger }),
      ({ addresses, zones }) => {
        log.logger.info({ version: version(), listen: addresses, zones }, 'ready');
      },
    );
    return await lifetime.exit(0);
  } catch (error) {
    if (!(error instanceof ConfigError || error instanceof ListenError)) throw error;
    printError(...(error instanceof ConfigError ? error.lines : [error.message]));
    return lifetime.exit(error instanceof ConfigError ? BAD_CONFIG : CANNOT_LISTEN);
  }
}

function flag<Value>(name: string, read: Reading<Value>): Value {
  if ('fault' in read) throw new UsageError(`--${name} ${read.fault}`);
  return read.value;
}
