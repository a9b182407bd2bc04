import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { test } from 'node:test';
import { architectureOffences, loadedWith } from './architecture-rules.ts';
import { blankLiterals } from './blank-literals.ts';

const ROOT = resolve(import.meta.dirname, '..');

const paths = globSync('{src,dashboard,test,testbed,scripts,bench}/**/*.{ts,mjs}', { cwd: ROOT });
const sources = new Map(paths.map(path => [path, readFileSync(resolve(ROOT, path), 'utf8')]));

test('the repository follows its architecture', () => {
  assert.ok(paths.length > 50, `only ${paths.length} files were checked`);
  assert.deepEqual(architectureOffences(sources), []);
});

test('causeway --version loads next to nothing', () => {
  const loaded = [...loadedWith('src/main.ts', sources), ...loadedWith('src/cli/cli.ts', sources)];
  assert.ok(loaded.length > 5, `${loaded}`);
  assert.deepEqual(
    loaded.filter(path => !/^src\/(?:main\.ts|program-file\.ts|cli\/|text\/)/.test(path)),
    [],
  );
});

test('causeway check loads what reads a file, and no gateway', () => {
  const loaded = loadedWith('src/cli/check.ts', sources);
  const packages = loaded.filter(path => !path.startsWith('src/'));
  assert.deepEqual(packages.toSorted(), ['yaml', 'zod']);
  const heavy = loaded.filter(path =>
    /^src\/(?:admin|agent|demo|kube|outputs|sources)\/|\/gateway\.ts$/.test(path),
  );
  assert.deepEqual(heavy, []);
});

test('a gateway does not keep what reads its file', () => {
  const loaded = loadedWith('src/cli/run.ts', sources);
  assert.ok(loaded.includes('src/gateway/control/gateway.ts'), `${loaded.length} files`);
  assert.deepEqual(
    loaded.filter(path => ['yaml', 'zod', '@kubernetes/client-node'].includes(path)),
    [],
  );
});

test('threads of the gateway do not load all of node:http', () => {
  const entries = ['worker', 'streams/streams', 'health/health-worker'].map(name => `src/gateway/${name}.ts`);
  for (const path of entries.flatMap(entry => loadedWith(entry, sources))) {
    const imports = [...(sources.get(path) ?? '').matchAll(/^import (?!type\b).* from 'node:https?';$/gm)];
    assert.deepEqual(
      imports.map(([text]) => text),
      [],
      path,
    );
  }
});

test('loadedWith() follows imports that are made by themselves, and no types', () => {
  const tree = {
    'src/a.ts': "import type { X } from './x.ts';\nimport { type Y, z } from './b/z.ts';\nimport 'zod';",
    'src/b/z.ts':
      "import {\n  type V,\n  type W,\n} from './v.ts';\nexport { q } from '../q.ts';\nimport { t } from 'node:net';",
    'src/q.ts': "const lazy = await import('./lazy.ts');",
  };
  const loaded = loadedWith('src/a.ts', new Map(Object.entries(tree)));
  assert.deepEqual(loaded, ['src/a.ts', 'src/b/z.ts', 'zod', 'src/q.ts']);
});

const CLEAN = {
  'src/main.ts': "import { run } from './cli/run.ts';\nrun(process.argv);",
  'src/cli/run.ts': "import process from 'node:process';\nimport '../gateway/gateway.ts';\nprocess.exit(0);",
  'src/gateway/gateway.ts':
    "import type { Cluster } from '../cluster/cluster.ts';\nnew Worker(new URL('./worker.ts', import.meta.url));",
  'src/gateway/worker.ts': "import { parse } from '../wire/hello.ts';",
  'src/gateway/gateway.test.ts':
    "import { startHaproxy } from '../../testbed/start-haproxy.ts';\nprocess.pid;",
  'src/gateway/streams/guarded.ts':
    "socket.on('error', () => {});\nsocket.on(\n'end',\nguard(owner, () => x()));\nserver.on('x', one => safely(one, y));\nsocket.on('data', named);",
  'src/gateway/health/health-worker.ts': "control.on('message', message => this.#message(message));",
  'src/plan/plan.ts': "import { x } from '../cluster/cluster.ts';\nimport { y } from './claims.ts';",
  'src/cluster/cluster.ts':
    '// process.exit() stands in a comment\nexport const process1 = { process: 1 }.process;',
  'src/wire/hello.ts': "import { isIP } from 'node:net';\nconst text = 'process.exit';",
  'dashboard/page.ts': "import { h } from 'preact';\nimport { format } from './format.ts';",
  'dashboard/page.test.ts': "import { reasons } from '../src/gateway/control/gateway.ts';",
  'scripts/test-events.ts': 'export default 1;',
};

test('architectureOffences() returns nothing for a clean tree', () => {
  assert.deepEqual(architectureOffences(new Map(Object.entries(CLEAN))), []);
});

const OFFENDING: readonly [path: string, source: string, offence: RegExp][] = [
  [
    'src/wire/a.ts',
    "import { x } from '../cluster/x.ts';",
    /^src\/wire\/a\.ts: imports 'src\/cluster\/x\.ts', but wire imports nothing of ours$/,
  ],
  ['src/wire/a.ts', "import type { X } from '../gateway/x.ts';", /imports nothing of ours$/],
  ['src/wire/a.ts', "export * from '../gateway/x.ts';", /imports nothing of ours$/],
  ['src/wire/a.ts', "const x = await import('../gateway/x.ts');", /imports nothing of ours$/],
  ['src/wire/a.test.ts', "import { x } from '../gateway/x.ts';", /imports nothing of ours$/],
  ['src/cluster/a.ts', "import '../wire/x.ts';", /but cluster imports nothing of ours$/],
  ['src/plan/a.ts', "import {\n  x,\n  y,\n} from '../gateway/x.ts';", /but plan imports only cluster$/],
  [
    'src/sources/a.ts',
    "import { plan } from '../plan/plan.ts';",
    /but sources imports only cluster, config, kube, text, wire$/,
  ],
  ['src/identity/a.ts', "import { x } from '../gateway/x.ts';", /but identity imports only wire$/],
  [
    'src/gateway/a.ts',
    "import { x } from '../kube/x.ts';",
    /^src\/gateway\/a\.ts: reaches kube by src\/gateway\/a\.ts > src\/kube\/x\.ts$/,
  ],
  [
    'src/gateway/a.ts',
    "import { run } from '../admin/b.ts';",
    /reaches kube by src\/gateway\/a\.ts > src\/admin\/b\.ts > src\/kube\/c\.ts$/,
  ],
  [
    'src/gateway/a.ts',
    "import { x } from '../../testbed/x.ts';",
    /imports 'testbed\/x\.ts', which is not of the program$/,
  ],
  [
    'dashboard/a.ts',
    "import type { Status } from '../src/admin/status.ts';",
    /imports 'src\/admin\/status\.ts', but the dashboard runs in a browser, by itself$/,
  ],
  [
    'src/agent/a.ts',
    "import type { Circle } from './circle.ts';",
    /imports itself by src\/agent\/circle\.ts > src\/agent\/a\.ts > src\/agent\/circle\.ts$/,
  ],
  ['src/gateway/a.ts', 'const pid = process.pid;', /touches process/],
  ['src/gateway/a.ts', "const path = process['env'].PATH;", /touches process/],
  ['src/gateway/a.ts', 'globalThis.process.exit(1);', /touches process/],
  ['src/gateway/a.ts', 'const text = `${process.pid}`;', /touches process/],
  ['src/gateway/a.ts', 'const slash = /[/\'"`]/; process.exit(1); // `', /touches process/],
  ['src/gateway/a.ts', "import { pid } from 'node:process';", /touches process/],
  ['src/gateway/a.ts', 'export default function a() {}', /has a default export$/],
  ['src/gateway/a.ts', 'export { a as default };', /has a default export$/],
  ['src/gateway/streams/a.ts', "socket.on('data', chunk => this.#data(chunk));", /not guarded/],
  ['src/gateway/streams/a.ts', "socket.once(\n  'end',\n  () => socket.destroy(),\n);", /not guarded/],
  ['src/gateway/streams/a.ts', 'setTimeout(async () => {\n  x();\n}, 1);', /not guarded/],
  ['src/gateway/streams/a.ts', "gone.addEventListener('abort', () => x());", /not guarded/],
  ['src/gateway/rowTable.ts', '', /is not in kebab case$/],
  ['src/gateway/RowTable.test.ts', '', /is not in kebab case$/],
  ['src/gateway/socket-utils.ts', '', /'utils' says nothing/],
  ['src/common/x.ts', '', /'common' says nothing/],
];

for (const [path, source, offence] of OFFENDING) {
  test(`architectureOffences() reports ${path}: ${source || 'its name'}`, () => {
    const through = {
      'src/admin/b.ts': "import '../kube/c.ts';",
      'src/kube/c.ts': '',
      'src/agent/circle.ts': "import type { A } from './a.ts';",
    };
    const offences = architectureOffences(new Map(Object.entries({ ...CLEAN, ...through, [path]: source })));
    assert.equal(offences.length, 1, offences.join('\n'));
    assert.match(offences[0] as string, offence);
  });
}

test('blankLiterals() blanks comments, strings, templates and regular expressions, and nothing else', () => {
  const cases: [string, string][] = [
    ['a // b', 'a     '],
    ['a /* b\nc */ d', 'a     \n     d'],
    ["'it\\'s' + x", '        + x'.padStart(11)],
    ['`a ${b + `c ${d}` + {e: 1}.e} f` + g', '     b +      d   + {e: 1}.e     + g'],
    ['x / y / z', 'x / y / z'],
    ['x = /[/]"/.test(y)', 'x =       .test(y)'],
    ['return /a/', 'return    '],
  ];
  for (const [source, code] of cases) assert.equal(blankLiterals(source).code, code);
});
