// `causeway status`: what a running gateway serves now, asked over its admin side.

import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { ClusterAnswer } from '../admin/clusters.ts';
import type { StatusAnswer } from '../admin/status.ts';
import { AdminClient, AdminClientError } from './admin-client.ts';
import { type Command, parse, UsageError } from './command.ts';
import { statusText } from './status-text.ts';
import { painter, tell, writeJson } from './terminal.ts';

const NOT_REACHABLE = 1;
const DEFAULT_URL = 'http://127.0.0.1:9440';

const help = `causeway status: what a running gateway serves now

  --admin URL          its admin side; default ${DEFAULT_URL}
  --username U         where admin.auth is set; any role will do
  --password-file F    the file with the password
  --ca-file F          certificates to trust where the admin side has TLS; default the system's
  --json               the status alone, as GET /api/v1/status has it, on stdout

Exit codes: 0; 1 not reachable, or it does not let you in; 64 wrong usage.`;

export const statusCommand: Command = {
  name: 'status',
  summary: 'says what a running gateway serves now',
  help,
  run,
};

async function run(args: readonly string[]): Promise<number> {
  const { values } = parse('status', args, {
    admin: { type: 'string', default: DEFAULT_URL },
    username: { type: 'string' },
    'password-file': { type: 'string' },
    'ca-file': { type: 'string' },
    json: { type: 'boolean' },
  });
  const client = new AdminClient({
    url: adminUrl(values.admin),
    ...credentials(values.username, values['password-file']),
    ...(values['ca-file'] !== undefined && { ca: readCa(values['ca-file']) }),
  });
  try {
    const status = (await client.get('/api/v1/status')) as StatusAnswer;
    if (values.json === true) {
      writeJson(status);
    } else {
      const clusters = (await client.get('/api/v1/clusters')) as ClusterAnswer[];
      const notReady = await client.notReady();
      process.stdout.write(statusText({ status, clusters, notReady }, painter(process.stdout)));
    }
    return 0;
  } catch (error) {
    if (!(error instanceof AdminClientError)) throw error;
    tell(`causeway: ${error.message}`);
    return NOT_REACHABLE;
  }
}

function adminUrl(text: string): URL {
  const url = URL.parse(text);
  if (url === null || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--admin must be a URL such as ${DEFAULT_URL}: ${text}`);
  }
  if (url.username !== '' || url.password !== '') {
    throw new UsageError('--admin must be without a password: give --username and --password-file');
  }
  return url;
}

function credentials(
  username: string | undefined,
  passwordFile: string | undefined,
): { user?: { username: string; password: string } } {
  if ((username === undefined) !== (passwordFile === undefined)) {
    throw new UsageError('--username and --password-file belong together: give both or neither');
  }
  if (username === undefined || passwordFile === undefined) return {};
  const password = read('--password-file', passwordFile).replace(/\r?\n$/, '');
  return { user: { username, password } };
}

function readCa(file: string): string {
  const content = read('--ca-file', file);
  try {
    void new X509Certificate(content);
    return content;
  } catch (error) {
    throw new UsageError(`--ca-file must hold certificates in PEM form: ${file} does not`, { cause: error });
  }
}

function read(flag: string, file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    const why = code === 'ENOENT' ? 'there is no such file' : `it cannot be read (${code})`;
    throw new UsageError(`${flag} must be a file that can be read: ${file}: ${why}`, { cause: error });
  }
}
